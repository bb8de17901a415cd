"""Run the Spark jobs of a stateful batch: fold its records, those of a key in one task, and then let the timers come that it has reached."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from tideline.declaration.pipelines import Pipeline
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.records.transforms import Transform
from tideline.sinks.postgres.due_timers import Reached, count_due
from tideline.sinks.postgres.folded_table import FoldedTable
from tideline.sinks.postgres.sink import TableOutput
from tideline.sinks.postgres.state_staging import StateStage, at_once
from tideline.sinks.postgres.task_reports import latest_of
from tideline.sinks.sink import Output, Stage, Winner
from tideline.spark_jobs.folding_tasks import Expiring, Keying
from tideline.spark_jobs.readers.task_limits import WORTH_A_TASK, TaskLimits
from tideline.spark_jobs.tasks import Decoding
from tideline.state import arrow_records, before, buckets, reference_tables
from tideline.state.arrow_records import STREAM
from tideline.state.before import Before
from tideline.state.buckets import BUCKET, FIRST, Buckets
from tideline.state.folding import watermark
from tideline.state.rules import Rules, rules_of

Run = Callable[[DataFrame, Expiring], list[Winner]]
"""Runs tasks, and returns what the winning ones report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulBatch:
    """A batch that is folded, before anything of it is read."""

    attempt: Attempt
    rules: Rules
    before: Before
    decoding: Decoding
    raw: DataFrame
    limits: TaskLimits

    @property
    def buckets(self) -> Buckets:
        """Return how the records are divided among the tasks that fold them."""
        n_records = sum(len(piece.offsets) for piece in self.attempt.ranges)
        return Buckets.for_records(
            arrow_records.keyed_schema(self.decoding.steps.rows),
            n_records,
            n_tasks=self._n_tasks(n_records),
            most_keys=at_once(self.rules),
        )

    def keyed(self) -> DataFrame:
        """Return the records in pieces: those of a key in one partition, in order of stream and offset."""
        rules = replace(self.rules, given={})  # records get their keys without the reference tables
        keying = Keying(decoding=self.decoding, rules=rules, buckets=self.buckets)
        pieces = self.raw.mapInArrow(keying, from_arrow_schema(buckets.SCHEMA))
        n_records = sum(len(piece.offsets) for piece in self.attempt.ranges)
        parts = pieces.repartitionById(self._n_tasks(n_records), BUCKET)
        return parts.sortWithinPartitions(BUCKET, STREAM, FIRST)

    def output(self, table: Output) -> FoldedTable:
        """Return the output that publishes rows and states, around the table that the rows go to."""
        if not isinstance(table, TableOutput):
            raise TypeError(f"{self.attempt}: expected a table, found {type(table).__name__}")
        return FoldedTable(table=table, rules=self.rules, buckets=self.buckets, before=self.before)

    def expired(self, ledger: Ledger, stage: Stage, folding: Sequence[Winner], run: Run) -> list[Winner]:
        """Let the timers come that the records of the batch have reached. Return the winners that have staged what they made.

        Args:
            ledger: The session of the driver.
            stage: Where the records were folded and staged.
            folding: The winners of that.
            run: Runs tasks.
        """
        if not isinstance(stage, StateStage):
            raise TypeError(f"{self.attempt}: expected the stage of a stateful pipeline, found {type(stage).__name__}")
        tasks = [winner.task for winner in folding]
        due = count_due(ledger, self.attempt, stage.table, self._reached(folding), tasks)
        if not due:
            return []
        n_parts = self._n_tasks(sum(one.n_keys for one in due))
        expiring = Expiring(stage=stage, due=due, folding=tasks, n_parts=n_parts)
        return run(self.raw.sparkSession.range(0, n_parts, 1, n_parts), expiring)

    def _n_tasks(self, count: int) -> int:
        """Return how many tasks records, or keys, are worth."""
        return max(1, min(2 * self.limits.cores, self.limits.most, ceil(count / WORTH_A_TASK)))

    def _reached(self, folding: Sequence[Winner]) -> list[Reached]:
        """Return the watermarks after the batch, of the streams that have one."""
        latest = latest_of(folding)
        found = []
        for piece in self.attempt.ranges:
            position = self.before.positions[piece.stream_id]
            times = [at for at in (position.max_time, latest.get(piece.stream_id)) if at is not None]
            at = watermark(max(times, default=None), self.rules.lateness)
            if at is not None:
                keeps = position.label not in self.before.anew
                found.append(Reached(piece.topic, piece.partition, at, keeps))
        return found


def prepared(
    ledger: Ledger,
    pipeline: Pipeline,
    attempt: Attempt,
    *,
    transform: Transform,
    decoding: Decoding,
    raw: DataFrame,
    limits: TaskLimits,
) -> StatefulBatch | None:
    """Return how a batch is folded; None if its pipeline is not stateful. Called before anything is read.

    Raises:
        FatalError: The processor does not fit the declaration, the stored states do not fit it, or a reference table cannot be read.
        NeedsOperatorError: The batch was planned under another declaration, or is a replay or a re-drive.
    """
    before.check_kind(pipeline, attempt)
    rules = rules_of(pipeline, transform, decoding.steps.rows)
    if rules is None:
        return None
    known = before.found(ledger, pipeline, attempt, rules)
    given = reference_tables.read(pipeline.name, rules.tables)
    rules = replace(rules, former=known.columns.former).with_tables(given)
    return StatefulBatch(attempt=attempt, rules=rules, before=known, decoding=decoding, raw=raw, limits=limits)
