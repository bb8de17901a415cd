"""Read exactly the offset ranges of a batch from Kafka. The ranges are chosen by the plan and stored in the ledger."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession, functions

from tideline.ledger.attempts import Range
from tideline.spark_jobs.readers import short_ranges
from tideline.spark_jobs.readers.task_limits import WORTH_A_TASK, TaskLimits, n_parts

# Spark's defaults fetch 500 records at a time into a 64 KiB socket buffer, and ask the broker for its offsets after
# each fetch. These settings more than double the rate (measured in docs/performance.md).
_FETCHING = {
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(4 << 20),
    # A consumer fetches ahead. At the end of the log the broker holds that request for this time, by default for half a
    # second. Spark's requests for offsets wait behind it on the same connection. With 10 ms a load of 500 short ranges
    # took twice as long as with 0 ms.
    "kafka.fetch.max.wait.ms": "0",
    # Each range has a consumer, which lives for a second. Its metrics for the broker and for JMX would take a fifth of
    # its CPU time.
    "kafka.enable.metrics.push": "false",
    "kafka.auto.include.jmx.reporter": "false",
}

# Of ranges that share tasks, the longest is at most this many times as long as the shortest, so that tasks with equally
# many ranges take about as long. The group of the shortest ranges has no such limit.
_ALIKE = 8
# If at least this many ranges are short, one consumer reads them: a consumer for each would cost more than reading
# their records. Tasks share that cost among the cores and a single consumer does not. So the limit for a short range
# depends on the cores: 500 records with one core, 250 with two.
_MANY_RANGES = 50
_FEW_RECORDS = 500
_MOST_RECORDS = 100_000


class Share(NamedTuple):
    """Ranges that are read in the same way."""

    ranges: Sequence[Range]
    tasks: int | None
    """The number of tasks that read them, each of them whole ranges; None if each range has its own tasks."""


def shares(ranges: Sequence[Range], limits: TaskLimits) -> list[Share]:
    """Divide the ranges of a batch among tasks, about two per core, so that no core works alone on a long task at the end.

    A range that is longer than a task's share has its own task, or several if it is longer than `split_records`.
    Shorter ranges share tasks, and each is read by one task. So the counts of a range do not depend on the other ranges
    of its task.
    """
    found = list(_by_cores(ranges, limits))
    n_tasks = sum(share.tasks or sum(_n_own(piece, limits) for piece in share.ranges) for share in found)
    return found if n_tasks <= limits.most else list(_by_connections(ranges, limits))


def _n_own(piece: Range, limits: TaskLimits) -> int:
    """Return how many tasks read a range that shares none."""
    return n_parts([_length(piece)], limits.split_records) or 1


def _by_connections(ranges: Iterable[Range], limits: TaskLimits) -> Iterator[Share]:
    """Divide the ranges among as many tasks as there are connections for."""
    long = [piece for piece in ranges if _length(piece) > limits.split_records]
    short = [piece for piece in ranges if _length(piece) <= limits.split_records]
    if long:
        yield Share(long, None)
    if short:
        yield Share(short, min(len(short), limits.most - n_parts(map(_length, long), limits.split_records)))


def _by_cores(ranges: Iterable[Range], limits: TaskLimits) -> Iterator[Share]:
    longest_first = sorted(ranges, key=_by_length, reverse=True)
    total, cores = sum(map(_length, longest_first)), limits.cores
    share = min(limits.split_records, max(WORTH_A_TASK, ceil(total / (2 * cores))))
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
    """Return the options of Spark's Kafka reader for explicit ranges.

    It uses `assign`, because with `subscribe` a partition that was added after the plan fails the read. Both ends are
    offsets, so nothing is decided at read time. `failOnDataLoss` turns missing offsets into an error.

    Args:
        security: Bootstrap servers, login and isolation level, as `tideline.kafka.settings.spark_settings` gives them.
        ranges: At most one per topic and partition.
        split_records: The most offsets that one task reads. Without this limit Spark makes one task of a partition, and
            a long one keeps one core busy while the others wait.
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
        # If the end of a range does not exist (yet), the reader waits this long before it fails. The default is two
        # minutes.
        "kafkaConsumer.pollTimeoutMs": "30000",
    }


def read(spark: SparkSession, security: Mapping[str, str], ranges: Sequence[Range], limits: TaskLimits) -> DataFrame:
    """Return the records of a batch, lazily. Every action reads Kafka again, so run only one. Many short ranges are read immediately.

    Args:
        spark: The session.
        security: See `reader_options`.
        ranges: See `reader_options`.
        limits: Of the tasks that read them.
    """
    groups = many_short(ranges, limits)
    found = short_ranges.read(spark, security, groups) if groups else short_ranges.ReadRanges([], [])
    rest = set(ranges).difference(*groups).union(found.left)
    parts = [
        records if share.tasks is None else records.coalesce(share.tasks)
        for share in shares(sorted(rest, key=_by_length), replace(limits, most=limits.most - len(groups)))
        for records in [load(spark, reader_options(security, share.ranges, split_records=limits.split_records))]
    ]
    return reduce(DataFrame.union, [*map(columns, found.records), *parts])


def many_short(ranges: Sequence[Range], limits: TaskLimits) -> list[list[Range]]:
    """Return the short ranges that one consumer reads, grouped by task; none if they are fewer than `_MANY_RANGES`, or if connections are few."""
    cores = limits.cores
    longest = min(_FEW_RECORDS // cores, limits.split_records)
    short = sorted((piece for piece in ranges if _length(piece) <= longest), key=_by_length)
    totals = [total for total in accumulate(map(_length, short)) if total <= _MOST_RECORDS]
    if len(totals) < _MANY_RANGES:
        return []
    tasks = min(2 * cores, max(cores, ceil(totals[-1] / WORTH_A_TASK)))
    if tasks + n_parts(map(_length, ranges), limits.split_records) >= limits.most:
        return []  # no task would be left for the others
    return [short[first : len(totals) : tasks] for first in range(tasks)]


def load(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Return the records of one Spark Kafka reader with these options."""
    return columns(spark.read.format("kafka").options(**options).load())


def columns(records: DataFrame) -> DataFrame:
    """Select the columns that tasks need from those of Spark's reader.

    Headers become JSON text, or null if there are none. Spark measures its Arrow batch after each row, and for a column
    of lists that takes time in proportion to the rows of the batch. With headers as a list, a load took ten times as
    long.
    """
    return records.select(
        "topic", "partition", "offset", "timestamp", "key", "value", functions.to_json("headers").alias("headers")
    )
