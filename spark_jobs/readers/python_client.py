"""Read the ranges of a batch with the Python client, in the executors, where Spark's reader refuses a record of them.

Spark counts microseconds since 1970, and refuses a record whose timestamp is too large for that, with all records of the range. Producers that
write nanoseconds in place of milliseconds make such records. Here a timestamp that Spark cannot hold is null, and everything else
of a record is what Spark's reader makes of it. It takes longer than Spark's reader, so it reads only batches that Spark has refused.
"""

import ctypes
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tideline.kafka.records import LOOKING, Got, explained, got, place_of, unanswered
from tideline.kafka.settings import check_token
from tideline.ledger.attempts import Range
from tideline.records.kafka_metadata import headers_as_json
from tideline.records.record_steps import BATCH_RECORDS
from tideline.records.transforms import KAFKA
from tideline.spark_jobs.readers.task_limits import WORTH_A_TASK, TaskLimits

_READING = {
    **LOOKING,
    # Fail if an offset of the range does not exist any more, and never continue at another one.
    "auto.offset.reset": "error",
}
_SILENCE_S = 30.0
"""After this many seconds without a record or the end of the log, the task fails, as with Spark's reader."""
_POLL_S = 0.2
_AT_ONCE = 1_000
"""Records that the client hands over in one call."""
_MAX_BYTES = 16 << 20
"""The most bytes of keys, values and headers in one Arrow batch, except that it holds at least one record."""
_MOST_MICROSECONDS = 2**63 - 1
_NO_TEXT = "\N{REPLACEMENT CHARACTER}"
"""Stands for the name of a header that is no UTF-8, as with Spark's reader, which puts it in place of each wrong byte."""
_item = ctypes.pythonapi.PyTuple_GetItem
_item.argtypes, _item.restype = [ctypes.py_object, ctypes.c_ssize_t], ctypes.c_void_p
_BATCH = pa.schema(list(KAFKA))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSlice:
    """The offsets of one partition from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int


def read(spark: SparkSession, settings: Mapping[str, Any], ranges: Sequence[Range], limits: TaskLimits) -> DataFrame:
    """Return the records of a batch, lazily, with the columns that `readers.kafka.read` returns.

    Args:
        spark: The session.
        settings: Addresses, login and isolation level, as `tideline.kafka.settings.executor_settings` gives them.
        ranges: At most one per topic and partition.
        limits: Of the tasks that read them.
    """
    tasks = tuple(shares(ranges, split_records=limits.split_records))
    numbers = spark.range(0, len(tasks), 1, max(1, min(len(tasks), limits.most)))
    return numbers.mapInArrow(Reading(settings=settings, tasks=tasks), from_arrow_schema(_BATCH))


def shares(ranges: Iterable[Range], *, split_records: int) -> Iterator[tuple[OffsetSlice, ...]]:
    """Yield the slices that each task reads.

    A range that is longer than `split_records` has tasks of its own, since counts are kept by stream and first offset of a task. Short
    ranges share tasks.
    """
    short: list[OffsetSlice] = []
    for piece in ranges:
        cuts = [*range(piece.offsets.start, piece.offsets.end, split_records), piece.offsets.end]
        slices = [
            OffsetSlice(topic=piece.topic, partition=piece.partition, start=start, end=end)
            for start, end in pairwise(cuts)
        ]
        if len(slices) > 1:
            yield from ((one,) for one in slices)
            continue
        short += slices
        if sum(one.end - one.start for one in short) >= WORTH_A_TASK:
            yield tuple(short)
            short = []
    if short:
        yield tuple(short)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Turns numbers of tasks into the records of their slices. Runs in the executors' Python."""

    settings: Mapping[str, Any] = field(repr=False)  # hold a password
    tasks: tuple[tuple[OffsetSlice, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process one task of `mapInArrow`. Yield the records of each slice, in order.

        Raises:
            RetryableError: The brokers did not answer in time, or an offset is gone.
            FatalError: The user may not read a topic, or AWS gives this machine no token.
        """
        for batch in batches:
            for number in batch.column("id").to_pylist():
                check_token(self.settings, "source.security")  # executors may have other credentials than the driver
                consumer = Consumer({**self.settings, **_READING})
                try:
                    for piece in self.tasks[number]:
                        yield from _batches(_rows(consumer, piece))
                finally:
                    consumer.close()


def _rows(consumer: Consumer, piece: OffsetSlice) -> Iterator[tuple[Any, ...]]:
    """Yield the records of a slice. It ends at a record behind it, or where the log ends: its last offsets may hold no record."""
    place = piece.topic, piece.partition
    last_answer = time.monotonic()
    try:
        consumer.assign([TopicPartition(*place, piece.start)])
        while True:
            messages = consumer.consume(_AT_ONCE, timeout=_POLL_S)
            if not messages and time.monotonic() - last_answer > _SILENCE_S:
                raise unanswered({place}, f"no answer within {_SILENCE_S:g} s")
            if messages:
                last_answer = time.monotonic()
            for message in messages:
                kind = got(message)
                if kind is Got.NOTHING or place_of(message) != place:
                    continue
                offset = int(message.offset() or 0)
                if offset >= piece.end:
                    return
                if kind is Got.RECORD:
                    yield _row(message)
    except KafkaException as error:
        raise explained({place}, error.args[0]) from error


def _row(message: Message) -> tuple[Any, ...]:
    """Return a record in the order of the columns of `KAFKA`."""
    microseconds = message.timestamp()[1] * 1000
    return (
        *place_of(message),
        message.offset(),
        microseconds if abs(microseconds) <= _MOST_MICROSECONDS else None,
        message.key(),
        message.value(),
        headers_as_json(_headers(message)),
    )


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record.

    Where a name is no UTF-8, the client leaves its place in the tuple empty and an error pending. To read that place would end the process.
    """
    try:
        found = next(map(Message.headers, (message,)))  # called by C, which looks whether an error is pending
    except SystemError:
        found = message.headers()  # what the first call has kept
    return [(header[0] if _item(header, 0) else _NO_TEXT, header[1]) for header in found or ()]


def _batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    numbered = _numbered(rows)
    for _, part in groupby(numbered, key=lambda one: one[0]):
        columns = zip(*(row for _, row in part), strict=True)
        # From numbers: Kafka allows timestamps that Python cannot represent as a date, and any 64-bit number can be cast.
        arrays = [
            pa.array(column, pa.int64() if of.name == "timestamp" else of.type).cast(of.type)
            for column, of in zip(columns, KAFKA, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=_BATCH)


def _numbered(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield each row with the number of its Arrow batch. A batch is full at a number of records or of bytes."""
    number = n_records = n_bytes = 0
    for row in rows:
        size = sum(len(part) for part in row[-3:] if part)  # key, value, headers
        if n_records >= BATCH_RECORDS or (n_records and n_bytes + size > _MAX_BYTES):
            number, n_records, n_bytes = number + 1, 0, 0
        n_records, n_bytes = n_records + 1, n_bytes + size
        yield number, row
