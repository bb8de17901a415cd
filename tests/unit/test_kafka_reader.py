"""The options of Spark's Kafka reader, and the choice of ranges that share tasks, are pure functions of the ranges."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_ranges import piece
from tideline.ledger.attempts import Range
from tideline.spark_jobs.readers.kafka import Share, many_short, reader_options, shares

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
    groups = many_short([*long, *many], cores=2, split_records=250_000)
    assert piece_lengths(groups) == [[5] * 30, [5] * 30]
    assert sorted((r for group in groups for r in group), key=lambda r: r.partition) == many


def test_sparks_reader_reads_what_is_long_or_not_many():
    assert many_short([piece("ads", number, 0, 5) for number in range(49)], cores=2, split_records=250_000) == []
    ranges = [piece("ads", number, 0, 250) for number in range(100)]
    assert len(many_short(ranges, cores=2, split_records=250_000)) == 4
    assert many_short(ranges, cores=4, split_records=250_000) == []


def test_a_range_that_is_split_is_not_read_by_one_consumer():
    """`list_unread` uses the number of tasks to decide whether such a range was read to its end."""
    assert many_short([piece("ads", number, 0, 200) for number in range(99)], cores=2, split_records=199) == []


def test_one_consumer_reads_no_more_than_fits_into_the_driver():
    """The shortest ranges are chosen, because they gain most."""
    ranges = [piece("ads", number, 0, 250 if number % 2 else 1) for number in range(2_000)]
    groups = many_short(ranges, cores=2, split_records=250_000)
    assert len(groups) == 4
    assert sum(map(sum, piece_lengths(groups))) == 1_000 + 250 * 396
    assert sum(lengths.count(1) for lengths in piece_lengths(groups)) == 1_000


def tasks_of(lengths: list[int], *, cores: int = 2, split_records: int = 250_000) -> list[tuple[list[int], int | None]]:
    """Return the lengths of ranges that are read in the same way, and the number of tasks that read them."""
    found = shares(
        (piece("ads", number, 7, 7 + length) for number, length in enumerate(lengths)),
        cores=cores,
        split_records=split_records,
    )
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
    split_records=st.integers(1, 300_000),
)
def test_every_range_is_read_whole_by_one_task_or_apart_from_all_others(lengths, cores, split_records):
    """Counts are stored by the first offset that a task has read of a range: the other ranges of the task must not change that."""
    found = list(
        shares(
            (piece("ads", number, 0, length) for number, length in enumerate(lengths)),
            cores=cores,
            split_records=split_records,
        )
    )
    assert sorted(r.offsets.end for share in found for r in share.ranges) == sorted(lengths)
    for share in found:
        assert isinstance(share, Share)
        if share.tasks is not None:
            assert 1 <= share.tasks <= len(share.ranges)
            assert all(r.offsets.end <= split_records for r in share.ranges)
