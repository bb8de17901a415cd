"""Topics that grow: what is added is read from its first offset, although new streams of this pipeline would begin at the latest one."""

import pytest

import holding
import records
from sources import grow
from system import System

NAME = "grown"
FIRST, LATER = "grown_a", "grown_b"


def produce(system: System, topic: str, partition: int, first: int, end: int) -> None:
    """Records with these ids, all to one partition."""
    records.produce(
        system.bootstrap, topic, map(records.record, range(first, end)), partitions=1, first_partition=partition
    )


def ids(system: System) -> list[int]:
    return [row[0] for row in system.rows(f"SELECT id FROM e2e.{NAME} ORDER BY id")]


def heads(system: System) -> dict[str, int]:
    rows = system.rows("SELECT topic, partition, next_offset FROM tideline.stream WHERE pipeline = %s", NAME)
    return {f"{topic}/{partition}": head for topic, partition, head in rows}


@pytest.fixture(scope="module")
def first(system) -> str:
    """A run during which the topic is given a second partition, after the plan and before the write."""
    records.create(system.bootstrap, name=FIRST)
    system.run(NAME)
    produce(system, FIRST, 0, 0, 10)
    run_id = system.start(NAME)
    with holding.before_claim(system, NAME):
        grow(system, FIRST, 2)
        produce(system, FIRST, 1, 10, 15)
    system.succeed(NAME, run_id)
    return run_id


def test_a_partition_added_between_plan_and_write_does_not_disturb_the_run(system, first):
    assert ids(system) == list(range(10))
    assert heads(system) == {"grown_a/0": 10}
    assert system.attempts(NAME) == [(1, "published")]


def test_added_partitions_and_new_topics_of_the_pattern_are_read_from_their_first_offset(system, first):
    grow(system, FIRST, 3)
    produce(system, FIRST, 2, 15, 19)
    records.create(system.bootstrap, name=LATER)
    produce(system, LATER, 0, 19, 22)
    system.run(NAME)
    assert ids(system) == list(range(22))
    assert heads(system) == {"grown_a/0": 10, "grown_a/1": 5, "grown_a/2": 4, "grown_b/0": 3}
