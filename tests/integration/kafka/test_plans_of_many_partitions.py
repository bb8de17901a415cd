"""A plan over many partitions ends: its questions grow with the length of the logs, not with their number, and it has a deadline of its own."""

import time
from collections import Counter
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from given_ledger.ledgers import query
from given_ledger.planners import Brokerless, coverage, declared, load, next_offsets, run
from given_topics import topics
from given_topics.topics import at
from test_odd_timestamps import stamp
from tideline import flow
from tideline.domain.requests import NewRecords, Window
from tideline.errors import RetryableError
from tideline.flow import planning
from tideline.kafka.broker import Broker

PARTITIONS = 40
BEHIND = 4_000
YEAR_2099 = datetime(2099, 1, 1, tzinfo=UTC)
MOST_LOOKS = 2 * BEHIND.bit_length() + 2
"""Of a search: its steps double and then halve."""


def misdated(ledger, partitions, behind=BEHIND, **source):
    """Return a pipeline in whose partitions each log begins with a record of 2099, before others of a minute each."""
    scene = Brokerless(ledger, *[0] * partitions, source=source, batch_records=10**6)
    for number, log in enumerate(scene.logs):
        log.append(at=YEAR_2099)
        for minute in range(behind + number):
            log.append(at=at(minute))
    return scene


def counted(scene, *, seconds=0.0):
    """Return a count of the questions, which grows; each look at records takes some time."""
    asked = Counter()

    def on_step(_, question):
        asked[question] += 1
        if question == "records_from":
            time.sleep(seconds)

    scene.cluster.on_step = on_step
    return asked


@pytest.mark.parametrize("partitions", [1, PARTITIONS])
def test_the_looks_of_a_window_do_not_grow_with_the_partitions(ledger, partitions):
    scene = misdated(ledger, partitions)
    load(ledger, scene.plan("all"))
    asked = counted(scene, seconds=0.05)
    window = Window(start=at(1_000), end=at(2_000), replace=True)
    [batch_id] = scene.plan("window", window)
    assert asked["records_from"] <= 2 * MOST_LOOKS
    assert asked["offsets_at"] <= 4
    found = query(
        ledger, "SELECT lower(offsets), upper(offsets) FROM tideline.batch_range WHERE batch_id = %s", batch_id
    )
    assert found == [(1_001, 2_001)] * partitions


def test_the_looks_for_a_start_at_a_time_do_not_grow_with_the_partitions(ledger):
    scene = misdated(ledger, PARTITIONS, start=at(1_000).isoformat())
    asked = counted(scene)
    load(ledger, scene.plan("first"))
    assert (asked["records_from"] <= MOST_LOOKS, asked["offsets_at"] <= 3) == (True, True)
    assert {start for start, *_ in (coverage(ledger, n)[0] for n in range(PARTITIONS))} == {1_001}


def test_the_looks_of_latest_wins_do_not_grow_with_the_partitions(ledger):
    scene = misdated(ledger, PARTITIONS, delivery="latest_wins")
    asked = counted(scene)
    load(ledger, scene.plan("first", NewRecords(until=at(3_000), since=at(2_500))))
    assert asked["records_from"] <= MOST_LOOKS
    assert next_offsets(ledger) == {number: log.end for number, log in enumerate(scene.logs)}


def test_a_plan_may_wait_for_brokers_longer_than_other_transactions(ledger):
    scene = misdated(ledger, 2, behind=20)
    load(ledger, scene.plan("all"))
    with ledger.connection as connection, connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = '300ms'")
    counted(scene, seconds=0.5)
    assert scene.plan("window", Window(start=at(5), end=at(10), replace=True))
    assert query(ledger, "SHOW idle_in_transaction_session_timeout") == [("300ms",)]


def test_a_plan_whose_brokers_are_slower_than_its_deadline_says_so_and_reserves_nothing(ledger, monkeypatch):
    scene = misdated(ledger, 2)
    load(ledger, scene.plan("all"))
    monkeypatch.setattr(planning, "DEADLINE_S", 0.3)
    asked = counted(scene, seconds=0.1)
    with pytest.raises(RetryableError, match="races: the plan: the brokers have not answered all questions") as refused:
        scene.plan("window", Window(start=at(1_000), end=at(2_000), replace=True))
    assert refused.value.entry == "plan-takes-too-long"
    assert asked["records_from"] <= 10
    assert query(ledger, "SELECT count(*) FROM tideline.batch") == [(1,)]
    monkeypatch.setattr(planning, "DEADLINE_S", 180)
    assert scene.plan("window", Window(start=at(1_000), end=at(2_000), replace=True))


def test_real_brokers_find_a_time_in_many_partitions_and_topics_at_once(broker, admin, ledger):
    settings = {"message.timestamp.after.max.ms": str(2**62), "retention.ms": "-1"}
    names = [topics.created(admin, f"many_{n}_{uuid4().hex[:8]}", 20, **settings) for n in range(2)]
    for name in names:
        for partition in range(20):
            stamp(broker, name, YEAR_2099, *range(partition + 3), partition=partition)
    pipeline = declared(broker.bootstrap, *names, start=at(2).isoformat())
    asked = Broker(pipeline.source)
    planned = flow.plan(ledger, asked, pipeline, run("first"), NewRecords()).batch_ids
    found = query(
        ledger,
        "SELECT lower(offsets), upper(offsets) - partition FROM tideline.batch_range JOIN tideline.stream USING (stream_id)",
    )
    assert (len(planned), found) == (1, [(3, 4)] * 40)
