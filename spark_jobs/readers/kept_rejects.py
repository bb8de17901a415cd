"""Read the records of a re-drive from the bytes that were kept when they were rejected. Kafka need not hold them any more.

Each task stores which rejects it has read, and publishing settles exactly these. This module chooses nothing: the
rejects of the re-drive are stored in the ledger.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from psycopg2.errorcodes import RESTRICT_VIOLATION
from psycopg2.extras import DictRow
from psycopg2.sql import SQL
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tideline.errors import RetryableError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import RefusedStatementError
from tideline.records.transforms import KAFKA
from tideline.spark_jobs.readers.task_limits import TaskLimits
from tideline.statements import statement

SLICE_RECORDS = 10_000
SLICE_BYTES = 8 << 20
"""The most bytes that one task reads, except that it reads at least one record. `SLICE_RECORDS` is the most records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectSlice:
    """The rejects of one stream from `start` to before `end`. Slices do not overlap, so each record is counted once."""

    stream_id: int
    topic: str
    partition: int
    start: int
    end: int


def read(spark: SparkSession, ledger: Ledger, ledger_url: str, attempt: Attempt, limits: TaskLimits) -> DataFrame:
    """Return the rejects that a re-drive takes, lazily, with the columns that `readers.kafka.read` returns.

    One slice is one task, as long as there are connections for all of them. A task that reads more of them counts those
    of a stream as one. Whenever it runs, it reads the same ones.
    """
    with ledger.transaction():
        rows = ledger.rows_of(
            SQL(statement("tideline.spark_jobs.readers", "slice_rejects")),
            {"batch_id": attempt.batch_id, "slice_records": SLICE_RECORDS, "slice_bytes": SLICE_BYTES},
        )
    slices = tuple(
        RejectSlice(
            stream_id=row["stream_id"],
            topic=row["topic"],
            partition=row["partition"],
            start=row["start_offset"],
            end=row["end_offset"],
        )
        for row in rows
    )
    numbers = spark.range(0, len(slices), 1, max(1, min(len(slices), limits.most)))
    stored = KeptRecords(ledger_url=ledger_url, attempt=attempt, slices=slices)
    return numbers.mapInArrow(stored, from_arrow_schema(pa.schema(list(KAFKA))))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRecords:
    """Turns numbers of slices into their records. Runs in the executors' Python."""

    ledger_url: str = field(repr=False)  # holds a password
    attempt: Attempt
    slices: tuple[RejectSlice, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process one task of `mapInArrow`. Yield the records of each slice."""
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield self._records(self.slices[number])

    def _records(self, part: RejectSlice) -> pa.RecordBatch:
        with Ledger(self.ledger_url, actor="spark task") as ledger:
            rows = read_slice(ledger, self.attempt, part.stream_id, part.start, part.end)
        columns = {
            "topic": [part.topic] * len(rows),
            "partition": [part.partition] * len(rows),
            "offset": [row["kafka_offset"] for row in rows],
            "timestamp": [
                None if row["kafka_timestamp_ms"] is None else row["kafka_timestamp_ms"] * 1000 for row in rows
            ],
            "key": [row["key"] for row in rows],
            "value": [row["value"] for row in rows],
            "headers": [None if row["headers"] is None else bytes(row["headers"]).decode() for row in rows],
        }
        # Timestamps are built from numbers: Kafka allows timestamps that Python cannot represent as a date, and any
        # 64-bit number can be cast.
        arrays = [
            pa.array(columns[of.name], pa.int64() if of.name == "timestamp" else of.type).cast(of.type) for of in KAFKA
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(KAFKA)))


def read_slice(ledger: Ledger, attempt: Attempt, stream_id: int, start: int, end: int) -> list[DictRow]:
    """Return the rejects of a re-drive within `[start, end)` of a stream that still exist, and store which ones were read.

    Raises:
        RetryableError: Another task of this attempt has read the slice before and found other rejects, and that task's
            rows may be the staged ones.
    """
    bound = {
        "batch_id": attempt.batch_id,
        "attempt": attempt.attempt,
        "stream_id": stream_id,
        "start": start,
        "end": end,
    }
    try:
        with ledger.transaction():
            return ledger.rows_of(SQL(statement("tideline.spark_jobs.readers", "read_rejects")), bound)
    except RefusedStatementError as error:
        if error.sqlstate != RESTRICT_VIOLATION:
            raise
        raise RetryableError(
            f"{attempt}: rejects of stream {stream_id} from offset {start} on were read twice, and were others the second time",
            next_step="run the task again",
            entry="rejects-have-changed",
        ) from error
