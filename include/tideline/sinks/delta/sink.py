"""Delta tables as a sink. `tideline.sinks.delta.delta_table` fences and commits; the ledger follows, see `tideline.spark_jobs.publishing`."""

from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from tideline.declaration.delta import DeltaSink
from tideline.declaration.pipelines import Pipeline
from tideline.domain.receipts import Receipt
from tideline.domain.states import BatchKind
from tideline.errors import RetryableError
from tideline.ledger import events
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.sinks import evidence
from tideline.sinks.delta import added_columns, counting, delta_cleaning, delta_files, delta_table, preparing
from tideline.sinks.delta.counting import Counted
from tideline.sinks.delta.delta_log import Change
from tideline.sinks.delta.delta_table import DeltaOutput
from tideline.sinks.delta.parquet_files import from_text
from tideline.sinks.delta.replacing import Replacing, of_replay
from tideline.sinks.delta.staging import DeltaTableStage
from tideline.sinks.kind import section
from tideline.sinks.sink import OutcomeUnknownError, Publication, StagedCommit, StagingPlace


@dataclass(slots=True, kw_only=True)
class DeltaTableOutput:
    """The Delta table that an attempt writes to."""

    output: DeltaOutput
    attempt: Attempt
    columns: pa.Schema
    """The columns that the transform fills."""
    item: str | None
    adds_columns: bool
    """Whether the attempt adds columns that the table lacks."""
    _counted: Counted | None = field(default=None, init=False)
    _offered: set[str] = field(default_factory=set, init=False)
    """The paths of all files that were part of a try to commit."""
    _announced: set[str] = field(default_factory=set, init=False)
    """The columns of which an event says that the attempt adds them."""

    def describe(self) -> str:
        """Return where the table is."""
        return self.output.location.uri

    def stage(self, ledger: Ledger, place: StagingPlace) -> DeltaTableStage:  # noqa: ARG002 - nothing has to be created
        """Return what each task needs to write files into the attempt's folder."""
        return DeltaTableStage(
            place=place,
            location=self.output.location,
            columns=self.columns,
            partition_by=self.output.partition_by,
            batch_id=self.attempt.batch_id,
            folder=delta_files.folder(self.attempt.identity, self.attempt.receipt),
            topic_ids={piece.stream_id: str(piece.topic_id) for piece in self.attempt.ranges},
            redrives=self.attempt.kind is BatchKind.REDRIVE,
        )

    def count(self, publication: Publication) -> StagedCommit:
        """Return what the winning tasks have staged, without the rows of rejected records."""
        found = [file for winner in publication.winners for file in from_text(winner.staged)]
        files = delta_files.filesystem(self.output.location)
        try:
            self._counted = counting.count(publication, files, found, self.item)
        except OSError as error:
            raise self.output.location.unavailable(error) from error
        return self._counted.staged

    def commit(self, publication: Publication, staged: StagedCommit) -> Receipt:  # noqa: ARG002 - `count` has made the files
        """Add the files to the table in one step. A replay removes the rows of its ranges in the same step."""
        if self._counted is None:
            raise RuntimeError(f"{self.attempt}: nothing was counted")
        attempt, added = self.attempt, [file.added() for file in self._counted.files]
        replacing: Replacing | None = None
        if attempt.kind is BatchKind.REPLAY:
            files = delta_files.filesystem(self.output.location)
            folder = delta_files.folder(attempt.identity, attempt.receipt)
            replacing = of_replay(publication.ledger, attempt, files, folder)

        announce = partial(self._announce, publication.ledger) if self.adds_columns else None

        def changes(table: DeltaTable) -> list[Change]:
            added_columns.add(self.output.location, table, self.columns, announce)
            made = [*(replacing.changes(table) if replacing else ()), *added]
            self._offered |= {change.path for change in made if isinstance(change, AddAction)}
            return made

        try:
            return self.output.commit(attempt.batch, attempt.receipt, changes, attempt.describe_ranges())
        except RetryableError as error:
            raise OutcomeUnknownError(error.problem, next_step="run the task again", entry=error.entry) from error
        except OSError as error:  # of a file that a replay replaces, before anything was committed
            raise self.output.location.unavailable(error) from error

    def _announce(self, ledger: Ledger, columns: pa.Schema) -> None:
        """Record an event for each column that is about to be added, once for the attempt."""
        with ledger.transaction():
            for column in columns:
                if column.name not in self._announced:
                    kind = str(column.type)
                    events.record_added_column(
                        ledger, self.attempt, output=self.describe(), column=column.name, kind=kind
                    )
        self._announced |= {*columns.names}

    def clear(self, ledger: Ledger) -> None:  # noqa: ARG002 - the table itself says who can still commit
        """Remove the files of attempts that can no longer commit, and those that this one has not committed."""
        delta_cleaning.clear(self.output, self.attempt.identity, self.attempt.attempt, self._offered)


class DeltaTableSink:
    """Delta tables in folders and object stores."""

    def prepare(self, ledger: Ledger, pipeline: Pipeline, attempt: Attempt, produced: pa.Schema) -> DeltaTableOutput:
        """Create the table if it does not exist, and check that it fits what the transform produces."""
        output = delta_table.sink(pipeline, evidence.of(ledger, pipeline))
        return DeltaTableOutput(
            output=output,
            attempt=attempt,
            columns=preparing.prepare(output, pipeline, attempt.kind, produced),
            item=section(pipeline, DeltaSink).item,
            adds_columns=pipeline.sink.adds_columns,
        )
