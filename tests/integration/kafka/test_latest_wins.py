"""A pipeline that wants the latest records: what it leaves out is recorded, and deleted records do not stop it."""

from itertools import pairwise

import pytest
from confluent_kafka import TopicPartition

from given_ledger import ledgers
from given_ledger.ledgers import query, state
from given_ledger.planners import (
    NAME,
    Brokerless,
    ask,
    coverage,
    declared,
    finish,
    load,
    next_offsets,
    plan,
    ranges,
    ranges_of,
    run,
)
from given_topics.topics import at, produce, stamped, topic_of, window
from tideline import flow
from tideline.domain.requests import NewRecords
from tideline.ledger import attempts, heads
from tideline.ledger.abandoning import GRACE_SECONDS
from tideline.ledger.attempts import Writer

POLICY = ("latest wins", "policy latest_wins")


def latest(broker, topic, **limits):
    return declared(broker.bootstrap, topic, source={"delivery": "latest_wins"}, **limits)


def holes(ledger, partition=0):
    return query(
        ledger,
        "SELECT lower(offsets), upper(offsets), hole::text, reason, decided_by FROM tideline.coverage JOIN tideline.stream USING (stream_id)"
        " WHERE hole IS NOT NULL AND partition = %s ORDER BY 1",
        partition,
    )


def grow_old(ledger, seconds=GRACE_SECONDS + 1):
    """Set the planning times of all current plans back by so many seconds."""
    with ledger.transaction(), ledger.connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # a trigger forbids changes of what was planned
        cursor.execute("UPDATE tideline.batch SET planned_at = planned_at - make_interval(secs => %s)", [seconds])


def assert_tiled(ledger, ends):
    """Check that every offset has one owner, a batch or the policy, and that the heads have passed them all."""
    assert next_offsets(ledger) == ends
    for partition, end in ends.items():
        edges = [(0, 0), *((a, b) for a, b, _ in coverage(ledger, partition)), (end, end)]
        assert all(left[1] == right[0] for left, right in pairwise(edges))


def test_records_deleted_unread_are_lost_in_the_policys_name_and_the_stream_goes_on(
    broker, admin, topic, ledger, ledger_url
):
    pipeline = latest(broker, topic, batch_records=2, run_batches=1)
    produce(broker, topic, 1)
    plan(ledger_url, pipeline, "first")
    produce(broker, topic, 9)
    admin.delete_records([TopicPartition(topic, 0, 5)])[TopicPartition(topic, 0)].result()
    plan(ledger_url, pipeline, "second")
    assert query(ledger, "SELECT state::text FROM tideline.stream") == [("active",)]
    assert holes(ledger) == [
        (0, 5, "lost", *POLICY),  # with what the first run had planned
        (5, 8, "skipped", *POLICY),
    ]
    assert ranges(ledger)[topic, 0] == [(0, 1), (8, 10)]


def test_a_run_that_finds_nothing_but_lost_records_has_moved_the_heads_over_them(
    broker, admin, topic, ledger, ledger_url
):
    pipeline = latest(broker, topic)
    produce(broker, topic, 3)
    load(ledger, plan(ledger_url, pipeline, "first"))
    produce(broker, topic, 4)
    admin.delete_records([TopicPartition(topic, 0, 7)])[TopicPartition(topic, 0)].result()
    assert plan(ledger_url, pipeline, "second") == []
    assert holes(ledger) == [(3, 7, "lost", *POLICY)]
    assert_tiled(ledger, {0: 7})


def test_each_run_takes_the_newest_that_fit_and_records_the_rest(admin, broker, ledger, ledger_url):
    """A short partition is loaded completely, a long one is shortened."""
    topic = topic_of(admin, broker, 20, 3)
    pipeline = latest(broker, topic, batch_records=5, run_batches=2)
    batch_ids = plan(ledger_url, pipeline, "first")
    assert [ranges_of(ledger, n) for n in batch_ids] == [{0: (13, 15), 1: (0, 3)}, {0: (15, 20)}]
    assert (holes(ledger), holes(ledger, 1)) == ([(0, 13, "skipped", *POLICY)], [])
    load(ledger, batch_ids)
    flow.advance(ledger, NAME, run("first"))
    assert_tiled(ledger, {0: 20, 1: 3})
    assert plan(ledger_url, pipeline, "nothing new") == []
    stamped(broker, topic, range(20, 24))
    load(ledger, plan(ledger_url, pipeline, "second"))
    assert len(holes(ledger)) == 1
    assert_tiled(ledger, {0: 24, 1: 3})


def test_what_a_failed_run_had_planned_is_given_up(admin, broker, ledger, ledger_url):
    topic = topic_of(admin, broker, 4)
    pipeline = latest(broker, topic, batch_records=6, run_batches=1)
    [failed] = plan(ledger_url, pipeline, "first")
    ledgers.attempts.fail(ledger, ledgers.claim(ledger, failed), "lost")
    stamped(broker, topic, range(4, 12))
    [batch_id] = load(ledger, plan(ledger_url, pipeline, "second"))
    assert state(ledger, failed)[0] == "abandoned"
    assert coverage(ledger) == [(0, 6, "skipped"), (6, 12, batch_id)]
    assert_tiled(ledger, {0: 12})
    assert query(
        ledger,
        "SELECT action, actor, detail ->> 'reason' FROM tideline.event WHERE action IN ('abandon', 'skip') ORDER BY event_id",
    ) == [
        ("abandon", "second", "latest wins"),
        ("skip", "second", "latest wins"),
    ]
    flow.advance(ledger, NAME, run("first"))


def test_a_batch_that_is_being_written_is_left_to_its_end(admin, broker, ledger, ledger_url):
    topic = topic_of(admin, broker, 10)
    pipeline = latest(broker, topic, batch_records=2, run_batches=2)
    first, second = plan(ledger_url, pipeline, "first")
    attempt = ledgers.claim(ledger, first)
    ledgers.stage(ledger, attempt)
    stamped(broker, topic, range(10, 12))
    grow_old(ledger)
    given = plan(ledger_url, pipeline, "second")
    assert given[0] == first
    assert [state(ledger, n)[0] for n in (first, second)] == ["writing", "abandoned"]
    ledgers.publish(ledger, attempt)
    load(ledger, given[1:])
    assert coverage(ledger) == [
        (0, 6, "skipped"),
        (6, 8, first),
        *((n, n + 2, b) for n, b in zip((8, 10), given[1:], strict=True)),
    ]
    assert_tiled(ledger, {0: 12})


@pytest.fixture
def woken(ledger):
    """Create a pipeline whose runs plan again while the one before has not begun to write."""
    return Brokerless(ledger, 4, source={"delivery": "latest_wins"}, batch_records=4, run_batches=1)


def claimed(ledger, batch_id, name):
    """Claim by the task `write` of that run."""
    writer = Writer(dag_id=NAME, run_id=name, task_id="write", try_number=1)
    return attempts.claim(ledger, batch_id, writer, stale_after_seconds=60)


def test_runs_that_plan_before_the_last_one_has_begun_take_nothing_from_it(ledger, woken):
    """Each run is planned between plan and write of the one before, as record triggers do it: each of them loads what it was given."""
    given = {"run 0": woken.plan("run 0")}
    for turn in range(1, 6):
        woken.logs[0].append(2)
        given[f"run {turn}"] = woken.plan(f"run {turn}")
        before = given[f"run {turn - 1}"]
        assert [state(ledger, n)[0] for n in before] == ["advanced"] * (len(before) - 1) + ["planned"]
        load(ledger, before[-1:])
        woken.advance(f"run {turn - 1}")
    load(ledger, given["run 5"][-1:])
    assert_tiled(ledger, {0: 14})
    assert holes(ledger) == []


def test_what_no_run_has_begun_within_the_grace_is_given_up(ledger, woken):
    [left] = woken.plan("killed before it began")
    grow_old(ledger, GRACE_SECONDS - 30)
    woken.logs[0].append(8)
    taken = woken.plan("in time")
    assert (taken[0], len(taken)) == (left, 2)
    grow_old(ledger, 31)
    woken.logs[0].append(8)
    given = woken.plan("too late")
    assert (state(ledger, left)[0], left in given) == ("abandoned", False)
    load(ledger, given)
    woken.advance("too late")
    assert_tiled(ledger, {0: 20})


def test_a_run_that_is_writing_keeps_what_it_has_not_come_to(ledger, woken):
    woken.pipeline = woken.pipeline.model_copy(
        update={"limits": woken.pipeline.limits.model_copy(update={"run_batches": 2, "batch_records": 2})}
    )
    first, second = woken.plan("slow")
    attempt = claimed(ledger, first, "slow")
    grow_old(ledger)
    woken.logs[0].append(2)
    assert woken.plan("next")[:2] == [first, second]
    query(ledger, "UPDATE tideline.attempt SET heartbeat_at = now() - interval '1 hour'")
    woken.plan("the one after")
    assert [state(ledger, n)[0] for n in (first, second)] == ["abandoned", "abandoned"]
    assert attempt.batch_id == first


def test_a_scheduled_run_takes_nothing_from_before_its_interval_nor_behind_it(admin, broker, ledger, ledger_url):
    topic = topic_of(admin, broker, 20)
    pipeline = latest(broker, topic, batch_records=50, run_batches=1)
    hour = NewRecords(since=at(10), until=at(15))
    [batch_id] = load(ledger, ask(ledger_url, pipeline, "hour", hour).batch_ids)
    assert coverage(ledger) == [(0, 10, "skipped"), (10, 15, batch_id)]
    assert_tiled(ledger, {0: 15})
    late = NewRecords(since=at(30), until=at(40))
    assert ask(ledger_url, pipeline, "late hour", late).batch_ids == []
    heads.advance_published(ledger, NAME)
    assert_tiled(ledger, {0: 20})
    assert coverage(ledger)[-1] == (15, 20, "skipped")


def test_the_policys_reason_stands_though_a_person_gives_one(admin, broker, ledger, ledger_url):
    topic = topic_of(admin, broker, 10)
    pipeline = latest(broker, topic, batch_records=2, run_batches=1)
    ask(ledger_url, pipeline, "manual", NewRecords(), reason="before the meeting")
    found = query(
        ledger,
        "SELECT action, detail ->> 'reason' FROM tideline.event WHERE action IN ('plan', 'skip') ORDER BY event_id",
    )
    assert found == [("skip", "latest wins"), ("plan", "before the meeting")]


def test_what_was_skipped_is_loaded_by_a_window_and_live_goes_on_behind_it(admin, broker, ledger, ledger_url):
    topic = topic_of(admin, broker, 12)
    pipeline = latest(broker, topic, batch_records=4, run_batches=1)
    [first] = load(ledger, plan(ledger_url, pipeline, "first"))
    stamped(broker, topic, range(12, 16))
    given = ask(ledger_url, pipeline, "window", window(5, 14))
    assert [ranges_of(ledger, n) for n in given.batch_ids] == [{0: (5, 8)}, {0: (12, 14)}]
    assert f"loaded by batch {first}" in given.notes[0]
    load(ledger, given.batch_ids)
    flow.advance(ledger, NAME, run("window"))
    load(ledger, plan(ledger_url, pipeline, "second"))
    assert [row[:2] for row in holes(ledger)] == [(0, 5)]
    assert_tiled(ledger, {0: 16})


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_fails_every_offset_is_loaded_once_or_skipped_by_name(admin, broker, ledger, ledger_url, seed):
    topic = topic_of(admin, broker, 5, 0, 9)
    pipeline = latest(broker, topic, batch_records=3, run_batches=2)
    for turn in range(5):
        batch_ids = plan(ledger_url, pipeline, f"run {turn}")
        for number, batch_id in enumerate(batch_ids):
            if (number + turn) % 3 == seed:
                ledgers.attempts.fail(ledger, ledgers.claim(ledger, batch_id), "lost")
            else:
                finish(ledger, [batch_id])
        for partition in range(3):
            stamped(broker, topic, range(20 + turn, 22 + turn + partition), partition=partition)
    load(ledger, plan(ledger_url, pipeline, "last"))
    assert_tiled(ledger, {0: 15, 1: 15, 2: 29})
    assert {row[3:] for partition in range(3) for row in holes(ledger, partition)} == {POLICY}
