"""The Delta table as an outside sink: fence a batch, look its receipt up, commit the files of an attempt.

The law: the rows of a batch are in the table once or not at all, whichever attempts try. The table keeps the version of each
batch, see `domain.receipts`, as the version of its application id. It changes by compare-and-set: load the table, look at
the version, commit exactly behind what was loaded. The crashes that could break the law: a commit whose answer is lost,
and an attempt that wakes up after it was fenced. Both find the version of the batch when they look.

A table that was never written is fenced as well, since a frozen attempt could still create it: `fence` creates a
placeholder, which `prepare` turns into the table. One that the ledger knows of and that is not there is refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tideline.declaration.delta import DeltaSink
from tideline.declaration.pipelines import Pipeline
from tideline.domain import receipts
from tideline.domain.receipts import BatchIdentity, Found, Receipt
from tideline.sinks import evidence
from tideline.sinks.delta import delta_applications, delta_disk, delta_errors, delta_log, delta_receipts
from tideline.sinks.delta.delta_log import Change, Location, TakenError, UnknownError
from tideline.sinks.delta.delta_trials import tried
from tideline.sinks.evidence import Evidence
from tideline.sinks.kind import section

COORDINATES = pa.schema(
    [
        pa.field("kafka_topic_id", pa.string(), nullable=False),
        pa.field("kafka_partition", pa.int32(), nullable=False),
        pa.field("kafka_offset", pa.int64(), nullable=False),
        pa.field("tideline_batch", pa.int64(), nullable=False),
    ]
)
"""Columns that every table has: the record that a row came from, and the batch that wrote it."""
PLACEHOLDER = "tideline_placeholder"
"""The column of a table that was only fenced yet."""
OWNER = "tideline.pipeline"
"""The property of a table that names the pipeline that has created it, or that was the first to use it. Pipelines of another ledger see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaOutput:
    """One pipeline's Delta table. Needs no JVM."""

    location: Location
    partition_by: tuple[str, ...] = ()
    known: Evidence = evidence.nothing
    """Says whether the table must exist."""

    def open(self) -> DeltaTable | None:
        """Load the newest version of the table; None if there is none, and the ledger knows of none.

        Raises:
            NeedsOperatorError: The table must exist and does not. Its storage may not be mounted.
        """
        table = self.location.open()
        if table is None and (why := self.known()) is not None:
            raise delta_errors.missing(self.location, why)
        return table

    @property
    def remembers_days(self) -> None:
        """Return None: a version stays for ever. If the log has forgotten whose it is, `look` says so."""

    def fence(self, batch: BatchIdentity, fence: int) -> Receipt | None:
        """Make sure that no attempt below `fence` can commit any more. Return the receipt of the one that has committed, if any.

        Raises:
            RetryableError: Storage did not answer. Whether the batch is fenced is unknown.
            FatalError: The table has a feature that is not kept. The batch is not fenced.
            ForgottenError: An attempt has committed, and the log of the table does not reach back to its commit.
            NeedsOperatorError: The table must exist and does not.
        """
        signed = delta_applications.marker(self.location.pipeline, batch, fence)

        def once() -> Receipt | None:
            table = self.open() or self._placeholder()
            version = self.version(table, batch.identity)
            if not receipts.needs_marker(version, fence):
                return self._receipt(table, batch, version)
            delta_log.commit(table, [], **signed._asdict())
            return None

        return tried(self.location, str(batch), once)

    def look(self, batch: BatchIdentity) -> Receipt | None:
        """Return the receipt of a batch. Fences nothing, so a commit in flight may still happen after None.

        Raises:
            RetryableError: Storage did not answer.
            NeedsOperatorError: As above.
        """
        table = self.open()
        return None if table is None else self._receipt(table, batch, self.version(table, batch.identity))

    def commit(
        self, batch: BatchIdentity, own: Receipt, changes: Callable[[DeltaTable], Sequence[Change]], ranges: str
    ) -> Receipt:
        """Commit an attempt's files in one step, and return its receipt. A second call does nothing more.

        Args:
            batch: The batch.
            own: Its attempt.
            changes: Returns the files to add and to remove, for the table as it is when the commit is tried.
            ranges: The offsets of the batch, for the history of the table.

        Raises:
            SupersededError: A newer attempt has fenced the batch, or another one has committed it. Nothing was changed.
            RetryableError: Storage did not answer, others have changed the table each time, or it was created anew meanwhile.
            FatalError: The table has a feature that is not kept. Nothing was changed.
            NeedsOperatorError: There is no table any more.
        """
        signed = delta_applications.data(self.location.pipeline, batch, own, ranges)

        def once() -> Receipt:
            table = self.location.open()
            if table is None:
                raise delta_errors.missing(self.location, f"attempt {own.fence} of {batch} was to commit to it")
            version = self.version(table, batch.identity)
            receipt = self._receipt(table, batch, version)
            match receipts.found(version, receipt, own=own):
                case Found.OWN:
                    return own
                case Found.SUPERSEDED:
                    raise delta_errors.superseded(self.location, batch, own, version, receipt)
            if PLACEHOLDER in pa.schema(table.schema()).names:
                raise delta_errors.created_anew(self.location, batch, own)
            delta_log.commit(table, changes(table), **signed._asdict())
            return own

        return tried(self.location, str(batch), once)

    def version(self, table: DeltaTable, identity: UUID) -> int | None:
        """Return the version of a batch in the table; None if it has none. It is on disk: what follows from it is not undone.

        Raises:
            RetryableError: Storage did not answer.
        """
        try:
            version = table.transaction_version(delta_applications.name(self.location.pipeline, identity))
            if version is not None:
                delta_disk.flush_log(table)
        except (DeltaError, OSError) as error:
            raise self.location.unavailable(error) from error
        return version

    def _placeholder(self) -> DeltaTable:
        """Create a table that can keep markers, and nothing else. Raises the errors of `create`."""
        partitions = pa.schema([(name, pa.string()) for name in self.partition_by if name not in COORDINATES.names])
        columns = pa.unify_schemas([COORDINATES, partitions, pa.schema([(PLACEHOLDER, pa.string())])])
        return self.create(columns)

    def create(self, columns: pa.Schema) -> DeltaTable:
        """Create the table.

        Raises:
            TakenError: There is one now.
            UnknownError: Storage did not answer.
        """
        try:
            table = DeltaTable.create(
                self.location.uri,
                columns,
                partition_by=list(self.partition_by),
                configuration={OWNER: self.location.pipeline},
                raise_if_key_not_exists=False,
                storage_options=dict(self.location.options),
            )
            delta_disk.flush_log(table)
        except (DeltaError, OSError) as error:
            kind = UnknownError if self.location.open() is None else TakenError
            raise kind(delta_log.first_line(error)) from error
        return table

    def _receipt(self, table: DeltaTable, batch: BatchIdentity, version: int | None) -> Receipt | None:
        fence = receipts.committed_by(version)
        if fence is None:
            return None
        try:
            receipt = delta_receipts.receipt(
                table, delta_applications.name(self.location.pipeline, batch.identity), fence
            )
        except (DeltaError, OSError) as error:
            raise self.location.unavailable(error) from error
        except delta_receipts.UntoldError as error:
            raise delta_errors.untold(self.location, batch, fence, error) from error
        if receipt is not None:
            return receipt
        raise delta_errors.forgotten(self.location, batch, fence)

    def identities(self) -> list[UUID]:
        """Return the identities of all batches of the pipeline that the table has a version of: committed, or only fenced.

        Raises:
            RetryableError: Storage did not answer.
            NeedsOperatorError: The table must exist and does not.
        """
        table = self.open()
        return [] if table is None else delta_applications.identities(self.location, table)

    def recreate(self) -> bool:
        """Create an empty table where there is none, although there must be one. Return whether there was none.

        Raises:
            RetryableError: Storage did not answer.
        """

        def once() -> bool:
            if self.location.open() is not None:
                return False
            self._placeholder()
            return True

        return tried(self.location, "as it is created", once)


def sink(pipeline: Pipeline, known: Evidence = evidence.nothing) -> DeltaOutput:
    """Return the table of a pipeline that declares one. `known` says whether it must exist.

    Raises:
        FatalError: A variable of the environment is not set.
    """
    return DeltaOutput(
        location=delta_log.of(pipeline),
        partition_by=section(pipeline, DeltaSink).partition_by,
        known=known,
    )


def columns_of(pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return names and types of the table's columns in Delta's terms; nothing before the first batch has made the table.

    Raises:
        RetryableError: Storage did not answer.
        FatalError: A variable of the environment is not set.
    """
    table = delta_log.of(pipeline).open()
    columns = [(field.name, str(field.type.type)) for field in table.schema().fields] if table else []
    return [] if PLACEHOLDER in dict(columns) else columns
