"""The options of Spark's Kafka reader are a pure function of the ranges."""

import json
from uuid import UUID

from spark_jobs.reading import reader_options
from tideline.domain.offsets import OffsetRange
from tideline.ledger.attempts import Range

SECURITY = {"kafka.bootstrap.servers": "here:9092", "kafka.isolation.level": "read_committed"}


def piece(topic: str, partition: int, start: int, end: int) -> Range:
    return Range(
        stream_id=partition,
        cluster_id="c",
        topic=topic,
        topic_id=UUID(int=1),
        partition=partition,
        offsets=OffsetRange(start, end),
        gaps_allowed=False,
    )


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
        "kafka.fetch.max.wait.ms": "10",
    }


def test_what_the_declaration_says_of_the_connection_is_not_overridden():
    options = options_of(piece("ads", 0, 0, 1), security={"kafka.fetch.max.bytes": "7"})
    assert options["kafka.fetch.max.bytes"] == "7"


def test_equal_ranges_give_equal_options():
    assert options_of(piece("ads", 0, 0, 1)) == options_of(piece("ads", 0, 0, 1))
