"""Read exactly the offset ranges of a batch from Kafka. Chooses nothing: the ledger has chosen."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession, functions

from spark_jobs.readers import short_ranges
from tideline.ledger.attempts import Range

# Spark's defaults fetch 500 records at a time into a 64 KiB socket buffer, and ask the broker for its offsets after each fetch.
# These more than double the rate (measured in docs/performance.md).
_FETCHING = {
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(4 << 20),
    # A consumer fetches ahead. At the end of the log the broker keeps that request for so long, by default for half a second, and what Spark asks
    # about offsets waits behind it on the same connection. With 10 ms a load of 500 short ranges took twice as long as with none.
    "kafka.fetch.max.wait.ms": "0",
    # A consumer for each range, which lives for a second: what it would tell the broker and the JVM of itself takes a fifth of its CPU.
    "kafka.enable.metrics.push": "false",
    "kafka.auto.include.jmx.reporter": "false",
}

# A task costs a Python worker and two connections: as much as reading some thousand records.
_WORTH_A_TASK = 5_000
# Ranges that share tasks are at most this many times as long as each other, but for the shortest, so that tasks of as many ranges are about as long.
_ALIKE = 8
# So many ranges or more are read by one consumer where they are short, so that a consumer for each costs more than their records do. Tasks share that
# cost and one consumer does not, so what is short depends on the cores: 500 records with one, 250 with two.
_MANY_RANGES = 50
_FEW_RECORDS = 500
_MOST_RECORDS = 100_000


class Share(NamedTuple):
    """Ranges that are read alike."""

    ranges: Sequence[Range]
    tasks: int | None
    """How many tasks read them, each whole ranges; None where each range has tasks of its own."""


def shares(ranges: Iterable[Range], *, cores: int, split_records: int) -> Iterator[Share]:
    """Cut a batch for the tasks that read it: twice as many as there are cores, so that none is left alone with a long one at the end.

    A range as long as a task's share is read by one task, or by several where it is longer than `split_records`; shorter ones share tasks. So what is
    counted for a range does not depend on which others its task has read.
    """
    longest_first = sorted(ranges, key=_by_length, reverse=True)
    total = sum(map(_length, longest_first))
    share = min(split_records, max(_WORTH_A_TASK, ceil(total / (2 * cores))))
    if long := [piece for piece in longest_first if _length(piece) > share]:
        yield Share(long, None)
    short = longest_first[len(long) :]
    bounds = [share // _ALIKE, share // _ALIKE**2, 0] if total > share else [0]
    for bound in bounds:
        alike = [piece for piece in short if _length(piece) > bound]
        short = short[len(alike) :]
        if alike:
            yield Share(alike, min(len(alike), max(cores, ceil(sum(map(_length, alike)) / share))))


def _length(piece: Range) -> int:
    return piece.offsets.end - piece.offsets.start


def _by_length(piece: Range) -> tuple[int, str, int]:
    return _length(piece), piece.topic, piece.partition


def reader_options(security: Mapping[str, str], ranges: Iterable[Range], *, split_records: int) -> dict[str, str]:
    """The options of Spark's Kafka reader for explicit ranges.

    `assign` and not `subscribe`: with the latter a partition added since the plan fails the read. Both ends are numbers, so nothing is
    decided at read time, and `failOnDataLoss` turns offsets that are gone into an error.

    Args:
        security: Bootstrap servers, login and isolation level, as `tideline.kafka.settings.spark_settings` gives them.
        ranges: At most one per topic and partition.
        split_records: Most offsets that one task reads. By default a partition is one task, and a long one keeps one core busy while the
            others wait.
    """
    assigned: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for piece in ranges:
        assigned.setdefault(piece.topic, []).append(piece.partition)
        starts.setdefault(piece.topic, {})[str(piece.partition)] = piece.offsets.start
        ends.setdefault(piece.topic, {})[str(piece.partition)] = piece.offsets.end
    return {
        **_FETCHING,
        **security,
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "maxRecordsPerPartition": str(split_records),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        # A range whose end is not there (yet) makes the reader wait this long before it fails; the default is two minutes.
        "kafkaConsumer.pollTimeoutMs": "30000",
    }


def read(spark: SparkSession, security: Mapping[str, str], ranges: Sequence[Range], *, split_records: int) -> DataFrame:
    """The records of a batch. Every action reads Kafka again, so give it one action only; many short ranges are read at once, before any action.

    Args:
        spark: The session.
        security: As of `reader_options`.
        ranges: As of `reader_options`.
        split_records: As of `reader_options`.
    """
    cores = spark.sparkContext.defaultParallelism
    groups = many_short(ranges, cores=cores, split_records=split_records)
    found = short_ranges.read(spark, security, groups) if groups else short_ranges.Found([], [])
    rest = set(ranges).difference(*groups).union(found.left)
    parts = [
        records if share.tasks is None else records.coalesce(share.tasks)
        for share in shares(rest, cores=cores, split_records=split_records)
        for records in [load(spark, reader_options(security, share.ranges, split_records=split_records))]
    ]
    return reduce(DataFrame.union, [*map(columns, found.records), *parts])


def many_short(ranges: Iterable[Range], *, cores: int, split_records: int) -> list[list[Range]]:
    """The ranges that one consumer is to read, for each task; none where there are not many that are short."""
    longest = min(_FEW_RECORDS // cores, split_records)
    short = sorted((piece for piece in ranges if _length(piece) <= longest), key=_by_length)
    totals = [total for total in accumulate(map(_length, short)) if total <= _MOST_RECORDS]
    if len(totals) < _MANY_RANGES:
        return []
    tasks = min(2 * cores, max(cores, ceil(totals[-1] / _WORTH_A_TASK)))
    return [short[first : len(totals) : tasks] for first in range(tasks)]


def load(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """What one reader of Spark's gives."""
    return columns(spark.read.format("kafka").options(**options).load())


def columns(records: DataFrame) -> DataFrame:
    """The columns that tasks take, of those of Spark's reader.

    Headers become JSON text, null where there are none: after each row Spark measures its Arrow batch, and for a column of lists that takes as
    long as the batch has rows. With a list of headers a load took ten times as long.
    """
    return records.select(
        "topic", "partition", "offset", "timestamp", "key", "value", functions.to_json("headers").alias("headers")
    )
