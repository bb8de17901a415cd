"""Process the records of a Spark task in one pass: decode, transform, count and COPY to staging. Runs in the executors' Python.

A task only adds rows under its attempt, and none of them is visible before the driver publishes. Spark may run a task
twice, but reports only one of the two as the winner. So staged rows carry the id of their task. Counts and rejects are
keyed by the data, so a second run adds nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext

from spark_jobs.records.kafka_metadata import stream_ids
from spark_jobs.records.record_steps import RecordSteps
from spark_jobs.records.row_bisection import isolate
from spark_jobs.records.staged_counts import Recorder
from spark_jobs.sinks.copying import Copier, RefusedError
from spark_jobs.sinks.fitting import STAGED_STREAM, STAGED_TASK
from spark_jobs.sinks.postgres import Target
from spark_jobs.sinks.postgres_types import converted

Batches = Iterator[pa.RecordBatch]

WINNER = pa.schema([("task", pa.int64()), ("n_rows", pa.int64())])
"""The result of a staging task. Spark keeps the result of one task for each partition, the winner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The ledger and the attempt that tasks store counts and rejects for."""

    ledger_url: str = field(repr=False)  # holds a password
    attempt_id: int
    streams: Mapping[tuple[str, int], int]
    """Stream id by topic and partition."""

    def recorder(self) -> Recorder:
        """Create a recorder for one task."""
        return Recorder(self.ledger_url, self.attempt_id, self.streams)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Turns raw records into decoded and transformed rows, and stores their counts and rejects."""

    place: Place
    steps: RecordSteps

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow`, before a `frame` transform. Yield the rows."""
        with self.place.recorder() as recorder:
            for table in self.steps.tables(batches, recorder):
                yield from table.to_batches()


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """Writes rows to the attempt's staging table, and stores the records of refused rows as rejects."""

    place: Place
    target: Target
    table: str

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow`, after a `frame` transform. Yield one row of the schema `WINNER`."""
        with self.place.recorder() as recorder:
            winner = self.store((pa.Table.from_batches([batch]) for batch in batches), recorder)
        yield winner

    def store(self, tables: Iterable[pa.Table], recorder: Recorder) -> pa.RecordBatch:
        """COPY all tables. Return the id of this task and the number of rows that it has staged, as one row of the schema `WINNER`.

        Each COPY commits by itself. Rows of a task that fails carry the id of a task that never wins, so they are
        ignored.
        """
        task = TaskContext.get().taskAttemptId()
        n_rows = 0
        with Copier(self.place.ledger_url, self.table, self.target.table) as copier:
            for table in tables:
                fitting, misfits = isolate(
                    table, lambda part: (part, self._fit(part, task)), (RefusedError,), suspect=None
                )
                for misfit in misfits:
                    recorder.reject("store", misfit.row.column("kafka").combine_chunks(), [misfit.reason])
                if not fitting:
                    continue
                inputs, rows = (pa.concat_tables(parts) for parts in zip(*fitting, strict=True))
                n_staged, refused = copier.copy(rows)
                n_rows += n_staged
                if refused:
                    kafka = inputs.column("kafka").combine_chunks().take(pa.array(refused, pa.int64()))
                    recorder.reject("store", kafka, refused.values())
        return pa.record_batch({"task": [task], "n_rows": [n_rows]}, schema=WINNER)

    def _fit(self, table: pa.Table, task: int) -> pa.Table:
        """Convert rows to the columns and types that COPY needs.

        Raises:
            RefusedError: A value does not fit its column.
        """
        columns = {}
        for column in self.target.columns:
            try:
                columns[column.name] = converted(table.column(column.name), column)
            except (pa.ArrowException, ValueError) as error:
                raise RefusedError(f"column {column.name}: {error}") from error
        kafka = table.column("kafka").combine_chunks()
        columns["kafka_offset"] = kafka.field("offset")
        columns[STAGED_STREAM] = stream_ids(kafka, self.place.streams)
        columns[STAGED_TASK] = pa.repeat(pa.scalar(task, pa.int64()), len(table))
        return pa.table(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePass:
    """Decodes, transforms and stages raw records in one pass, for pipelines without a `frame`. Each record is sent to Python only once."""

    decoding: Decoding
    staging: Staging

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow`. Yield one row of the schema `WINNER`."""
        with self.decoding.place.recorder() as recorder:
            winner = self.staging.store(self.decoding.steps.tables(batches, recorder), recorder)
        yield winner
