"""What a sink is: the part of the Spark job that knows one kind of output. The job knows no sink by name, and no sink calls a verb or Spark.

`prepare` runs in the driver before anything is read. `stage` creates a place that readers do not see, and returns what
each Spark task needs to fill it. Then `tideline.spark_jobs.publishing` has the rows of the winning tasks made visible, together
with the state of the batch in the ledger, exactly once: an output in the ledger's database inserts them (`Inserts`), one
outside of it commits them (`Commits`). `clear` removes what was staged. Each sink is a folder beside this file.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable
from uuid import UUID

import pyarrow as pa

from tideline.declaration.pipelines import Pipeline
from tideline.domain.receipts import Receipt
from tideline.errors import RetryableError
from tideline.kafka.broker import Broker
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written
from tideline.records.record_steps import Account
from tideline.records.staged_counts import Recorder

WINNER = pa.schema([("task", pa.int64()), ("n_rows", pa.int64()), ("staged", pa.string()), ("refused", pa.string())])
"""The result of a Spark task. Spark keeps the result of one task for each partition, the winner."""


class Winner(NamedTuple):
    """What a winning task reports."""

    task: int
    """Its task attempt id."""
    n_rows: int
    """How many rows it has staged."""
    staged: str | None = None
    """What the sink needs to find them, for example the names of files."""
    refused: str | None = None
    """Records with a row that does not fit, whose bytes the task does not have: the text of `as_text`."""

    def as_batch(self) -> pa.RecordBatch:
        """Return it as one row of the schema `WINNER`."""
        return pa.record_batch([pa.array([value], part.type) for value, part in zip(self, WINNER, strict=True)], WINNER)


class Refused(NamedTuple):
    """One record of which the output refuses a row."""

    stream_id: int
    offset: int
    reason: str


def as_text(refused: Iterable[Refused]) -> str | None:
    """Return refused records as the text that a task reports; None for none."""
    found = list(refused)
    return json.dumps(found) if found else None


def reported(winners: Iterable[Winner]) -> list[Refused]:
    """Return the records that winning tasks have reported as refused, each once: tasks after a shuffle may have rows of the same one."""
    found: dict[tuple[int, int], Refused] = {}
    for winner in winners:
        for one in json.loads(winner.refused or "[]"):
            refused = Refused(*one)
            found.setdefault((refused.stream_id, refused.offset), refused)
    return list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingPlace:
    """The ledger and the attempt that tasks store counts and rejects for."""

    ledger_url: str = field(repr=False)  # holds a password, of the role for executors
    attempt: UUID
    streams: Mapping[tuple[str, int], int]
    """Stream id by topic and partition."""

    def recorder(self) -> Recorder:
        """Create a recorder for one task."""
        return Recorder(self.ledger_url, self.attempt, self.streams)


class Stage(Protocol):
    """The part of a sink that runs in the executors' Python. It is pickled with each task.

    A task only adds rows under its attempt, and none of them is visible before the driver publishes. Spark may run a
    task twice, but reports only one of the two as the winner.
    """

    def store(self, tables: Iterable[pa.Table], recorder: Account, task: int) -> Winner:
        """Store the rows of a task where readers do not see them. Records with a row that does not fit become rejects.

        Args:
            tables: The rows.
            recorder: Keeps the rejects.
            task: The task attempt id, which no other task of the attempt has.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What the driver knows about a staged attempt, and what is needed to publish it."""

    ledger: Ledger
    broker: Broker
    pipeline: Pipeline
    attempt: Attempt
    winners: Sequence[Winner]
    reject: Callable[[Sequence[Refused]], int]
    """Stores these records as rejects of the attempt, with their bytes from the source. Returns how many it has stored."""
    filtered_by_difference: bool
    """Whether a transform of the whole batch filters, so that records neither written nor rejected count as filtered."""


class Output(Protocol):
    """Where the rows of one attempt go. It also has the methods of `Inserts` or those of `Commits`."""

    def describe(self) -> str:
        """Return what people call it, such as the name of a table."""

    def stage(self, ledger: Ledger, place: StagingPlace) -> Stage:
        """Create the attempt's place for staged rows, and return what each task needs to fill it."""

    def clear(self, ledger: Ledger) -> None:
        """Remove what this and earlier attempts at the batch have staged.

        Raises:
            RetryableError: Something still holds it. The batch is published; upkeep removes it later.
        """


class RefusedError(Exception):
    """A row that the output cannot hold. Its record becomes a reject, with this as the reason."""

    breaks_law = False
    """Whether the row breaks a NOT NULL or a CHECK of a table."""


class RowsRefusedError(Exception):
    """The output refuses rows, and does not say which: `Inserts.find_refused` does. This error is not shown to operators."""


@runtime_checkable
class Inserts(Protocol):
    """The part of an output in the ledger's database that publishes: one transaction there holds rows, counts and the state of the batch."""

    def insert(self, ledger: Ledger, winners: Sequence[Winner]) -> Written:
        """Insert the staged rows of the winning tasks, in the transaction that publishes the batch. Never commit it.

        Raises:
            RowsRefusedError: The output refuses rows.
            TidelineError: The batch cannot be published like this.
        """

    def find_refused(self, ledger: Ledger, winners: Sequence[Winner]) -> list[Refused]:
        """Return the records that the output refuses, at least one. What it changes to find them is rolled back.

        Raises:
            FatalError: They cannot become rejects.
            RetryableError: No record is refused any more.
        """


class StagedCommit(NamedTuple):
    """What an attempt is about to commit outside of the ledger's database."""

    written: Written
    n_rows: int
    """How many rows the commit must hold. A record can become several rows."""
    position: Mapping[str, Any] | None = None
    """Where the output ends before the commit, in the form of its sink, if the sink may forget its receipts and searches the output then."""


class OutcomeUnknownError(RetryableError):
    """The sink did not say whether a commit took effect. Its receipt shows it."""


@runtime_checkable
class Commits(Protocol):
    """The part of an output outside of the ledger's database that publishes."""

    def count(self, publication: Publication) -> StagedCommit:
        """Return what the winning tasks have staged.

        Raises:
            RetryableError: Less is there than they have reported.
        """

    def commit(self, publication: Publication, staged: StagedCommit) -> Receipt:
        """Make the rows of the winning tasks visible in one step, unless the attempt is fenced, and return its receipt.

        Changes the version of the batch by compare-and-set from what `domain.receipts.found` calls `FREE`.

        Raises:
            SupersededError: Another attempt has committed, or the attempt is fenced. Nothing of this attempt is visible,
                and nothing ever will be.
            OutcomeUnknownError: The commit was sent, and its outcome is not known.
            RetryableError: Nothing was committed.
        """


class Sink(Protocol):
    """One kind of output."""

    def prepare(self, ledger: Ledger, pipeline: Pipeline, attempt: Attempt, produced: pa.Schema) -> Output:
        """Create the output if it does not exist, and check that the columns that the transform produces fit it.

        Raises:
            FatalError: They do not fit. Nothing was read.
        """
