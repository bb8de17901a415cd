"""The tasks of a stateful pipeline besides the folding: give records their keys, and let timers come. They run in the executors' Python."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tideline.sinks.postgres.due_timers import Due
from tideline.sinks.postgres.state_staging import StateStage, at_once
from tideline.sinks.postgres.task_reports import EXPIRING, TaskReport
from tideline.spark_jobs.tasks import Decoding, task_id
from tideline.state import arrow_records
from tideline.state.buckets import Buckets
from tideline.state.folding import expired
from tideline.state.rules import Rules

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keying:
    """Turns raw records into pieces of decoded records with their keys, and stores their counts and rejects."""

    decoding: Decoding
    rules: Rules
    buckets: Buckets

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow`. Yield the pieces."""
        place, steps = self.decoding.place, self.decoding.steps
        with place.recorder() as recorder:
            tables = steps.tables(batches, recorder, self.decoding.schemas)
            yield from self.buckets.packed(arrow_records.keyed(tables, self.rules, place.streams, recorder))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiring:
    """Lets the timers come that the watermarks have reached at the end of a batch, and stages rows and states."""

    stage: StateStage
    due: Sequence[Due]
    folding: Sequence[int]
    """The winning tasks of the first phase."""
    n_parts: int

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow` over the number of its part. Yield one row of the schema `WINNER`."""
        task = task_id()
        rules = self.stage.rules
        watermarks = {one.stream: one.at for one in self.due}
        with self.stage.session(task, EXPIRING) as session:
            for batch in batches:
                for part in batch.column("id").to_pylist():
                    due = session.due(self.due, self.folding, part, self.n_parts, at_once(rules))
                    for folded in expired(rules, due, watermarks):
                        session.put(folded)
            session.flush()
        report = TaskReport(phase=EXPIRING, n_states=session.n_states, n_expired=session.n_expired, latest={})
        yield report.winner(task, session.n_rows).as_batch()
