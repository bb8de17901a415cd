"""The options of Spark's Kafka reader, and the choice of ranges that share tasks, are pure functions of the ranges."""

import json
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import SparkConf

from batch_ranges import piece
from tideline.declaration import pipelines
from tideline.domain.states import BatchKind
from tideline.ledger.attempts import Attempt, Range
from tideline.spark_jobs.readers.kafka import Share, many_short, reader_options, shares
from tideline.spark_jobs.readers.task_limits import TaskLimits, connections_of_a_task, fitting, most_cores

PROJECT = Path(__file__).resolve().parents[2]
PLENTY = TaskLimits(cores=2, most=1_000, split_records=250_000)
"""Connections for more tasks than there are."""
SECURITY = {"kafka.bootstrap.servers": "here:9092", "kafka.isolation.level": "read_committed"}


def options_of(*ranges: Range, security: dict[str, str] = SECURITY, split_records: int = 1000) -> dict[str, str]:
    return reader_options(security, ranges, split_records=split_records)


def test_both_ends_of_each_range_are_numbers_and_nothing_else_is_assigned():
    options = options_of(piece("ads", 0, 5, 9), piece("clicks", 0, 0, 1), piece("ads", 12, 2**62, 2**62 + 1))
    assert json.loads(options["assign"]) == {"ads": [0, 12], "clicks": [0]}
    assert json.loads(options["startingOffsets"]) == {"ads": {"0": 5, "12": 2**62}, "clicks": {"0": 0}}
    assert json.loads(options["endingOffsets"]) == {"ads": {"0": 9, "12": 2**62 + 1}, "clicks": {"0": 1}}


def test_everything_else_is_fixed():
    ranges = {"assign", "startingOffsets", "endingOffsets"}
    options = options_of(piece("ads", 0, 0, 1), split_records=77)
    assert {name: value for name, value in options.items() if name not in ranges} == {
        **SECURITY,
        "maxRecordsPerPartition": "77",
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "kafkaConsumer.pollTimeoutMs": "30000",
        "kafka.max.poll.records": "50000",
        "kafka.max.partition.fetch.bytes": "16777216",
        "kafka.fetch.max.bytes": "67108864",
        "kafka.receive.buffer.bytes": "4194304",
        "kafka.fetch.max.wait.ms": "0",
        "kafka.enable.metrics.push": "false",
        "kafka.auto.include.jmx.reporter": "false",
    }


def test_what_the_declaration_says_of_the_connection_is_not_overridden():
    options = options_of(piece("ads", 0, 0, 1), security={"kafka.fetch.max.bytes": "7"})
    assert options["kafka.fetch.max.bytes"] == "7"


def test_equal_ranges_give_equal_options():
    assert options_of(piece("ads", 0, 0, 1)) == options_of(piece("ads", 0, 0, 1))


def piece_lengths(groups: list[list[Range]]) -> list[list[int]]:
    return [[r.offsets.end - r.offsets.start for r in group] for group in groups]


def test_one_consumer_reads_ranges_that_are_short_where_they_are_many():
    many = [piece("ads", number, 7, 7 + 5) for number in range(60)]
    long = [piece("clicks", 0, 0, 100_000), piece("clicks", 1, 0, 251)]
    groups = many_short([*long, *many], PLENTY)
    assert piece_lengths(groups) == [[5] * 30, [5] * 30]
    assert sorted((r for group in groups for r in group), key=lambda r: r.partition) == many


def test_sparks_reader_reads_what_is_long_or_not_many():
    assert many_short([piece("ads", number, 0, 5) for number in range(49)], PLENTY) == []
    ranges = [piece("ads", number, 0, 250) for number in range(100)]
    assert len(many_short(ranges, PLENTY)) == 4
    assert many_short(ranges, replace(PLENTY, cores=4)) == []


def test_a_range_that_is_split_is_not_read_by_one_consumer():
    """`list_unread` uses the number of tasks to decide whether such a range was read to its end."""
    assert many_short([piece("ads", number, 0, 200) for number in range(99)], replace(PLENTY, split_records=199)) == []


def test_one_consumer_reads_no_more_than_fits_into_the_driver():
    """The shortest ranges are chosen, because they gain most."""
    ranges = [piece("ads", number, 0, 250 if number % 2 else 1) for number in range(2_000)]
    groups = many_short(ranges, PLENTY)
    assert len(groups) == 4
    assert sum(map(sum, piece_lengths(groups))) == 1_000 + 250 * 396
    assert sum(lengths.count(1) for lengths in piece_lengths(groups)) == 1_000


def ranges_of(lengths: list[int]) -> list[Range]:
    return [piece("ads", number, 7, 7 + length) for number, length in enumerate(lengths)]


def tasks_of(lengths: list[int]) -> list[tuple[list[int], int | None]]:
    """Return the lengths of ranges that are read in the same way, and the number of tasks that read them."""
    found = shares(ranges_of(lengths), PLENTY)
    return [([r.offsets.end - r.offsets.start for r in ranges], tasks) for ranges, tasks in found]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([10], [([10], 1)]),
        ([545_884], [([545_884], None)]),
        ([30_000] * 18, [([30_000] * 18, 4)]),
        ([20] * 500, [([20] * 500, 2)]),
        ([1_000] * 500, [([1_000] * 500, 4)]),
        ([300_000, 1, 300_000], [([300_000, 300_000], None), ([1], 1)]),
    ],
)
def test_there_are_about_as_many_tasks_as_cores(lengths, expected):
    assert tasks_of(lengths) == expected


def test_a_few_long_ranges_do_not_end_up_in_the_task_of_many_short_ones():
    """Otherwise one core reads nearly all of it while the others wait."""
    found = tasks_of([90_000] * 8 + [10] * 400)
    assert found == [([90_000] * 8, 4), ([10] * 400, 2)]


@given(
    lengths=st.lists(st.integers(1, 1_000_000), min_size=1, max_size=60),
    cores=st.integers(1, 64),
    most=st.integers(1, 200),
    split=st.none() | st.integers(1, 300_000),
)
def test_every_range_is_read_whole_by_one_task_or_apart_from_all_others_and_no_task_lacks_a_connection(
    lengths, cores, most, split
):
    """Counts are stored by the first offset that a task has read of a range: the other ranges of the task must not change that."""
    limits = fitting(lengths, cores=cores, most=most, split=split)
    found = shares(ranges_of(lengths), limits)
    assert sorted(len(r.offsets) for share in found for r in share.ranges) == sorted(lengths)
    for share in found:
        assert isinstance(share, Share)
        if share.tasks is not None:
            assert 1 <= share.tasks <= len(share.ranges)
            assert all(len(r.offsets) <= limits.split_records for r in share.ranges)
    assert sum(map(partial(n_tasks, limits), found)) <= most
    groups = many_short(ranges_of(lengths), limits)
    rest = [r for r in ranges_of(lengths) if not any(r in group for group in groups)]
    left = replace(limits, most=limits.most - len(groups))
    assert len(groups) + sum(map(partial(n_tasks, limits), shares(rest, left))) <= most


def n_tasks(limits: TaskLimits, share: Share) -> int:
    """Return the number of tasks that Spark makes of ranges: parts of `split_records` each, unless they share tasks."""
    return share.tasks or sum(ceil(len(r.offsets) / limits.split_records) for r in share.ranges)


@pytest.mark.parametrize(
    ("cores", "lengths", "expected"),
    [
        (2, [1_000_000], 4),
        (2, [545_884], 4),
        (2, [30_000] * 18, 4),
        (200, [1_000_000], 200),
        (200, [20_000_000], 400),
        (200, [4_000_000] * 5, 400),
        (200, [100_000] * 18, 360),
        (200, [2_000] * 500, 200),
    ],
)
def test_without_a_declared_split_no_core_is_idle_while_there_are_records_worth_a_task(cores, lengths, expected):
    limits = fitting(lengths, cores=cores, most=1_000, split=None)
    assert sum(map(partial(n_tasks, limits), shares(ranges_of(lengths), limits))) == expected


def test_as_many_tasks_as_connections_share_the_records_of_more_cores():
    """64 cores, and connections for 6 tasks."""
    assert fitting([1_000_000], cores=64, most=6, split=None).split_records == 166_668
    few = fitting([1_000_000], cores=64, most=6, split=1_000)
    found = shares(ranges_of([1_000_000, 5, 5]), few)
    assert [(len(share.ranges), n_tasks(few, share)) for share in found] == [(1, 4), (2, 2)]


@pytest.mark.parametrize(
    ("pipeline", "kind", "expected"),
    [
        ("impressions", BatchKind.LIVE, 2),
        ("impressions", BatchKind.REDRIVE, 3),
        ("sessions", BatchKind.LIVE, 3),
        ("enriched_events", BatchKind.LIVE, 3),  # its schemas are in a registry
        ("enriched_events", BatchKind.REDRIVE, 4),
    ],
)
def test_a_task_needs_a_connection_for_each_thing_that_it_does_at_once(pipeline, kind, expected):
    declared = pipelines.load(PROJECT / "include" / "pipelines" / pipeline)
    ids = {"identity": uuid4(), "attempt": uuid4(), "attempt_id": 1}
    attempt = Attempt(pipeline=pipeline, batch_id=1, kind=kind, fence=1, ranges=(), **ids)
    assert connections_of_a_task(declared, attempt) == expected


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, 3),
        ({"maxExecutors": "50"}, 3),  # it is not enabled
        ({"enabled": "true"}, 3),
        ({"enabled": "true", "maxExecutors": "50"}, 200),
        ({"enabled": "true", "maxExecutors": "0"}, 3),
    ],
)
def test_parts_follow_the_cores_that_dynamic_allocation_may_ask_for(properties, expected):
    conf = SparkConf(loadDefaults=False).set("spark.executor.cores", "4")
    for name, value in properties.items():
        conf.set(f"spark.dynamicAllocation.{name}", value)
    assert most_cores(conf, 3) == expected
