"""Planning on a real broker and a real ledger: what is new is reserved once, whoever asks, however many ask at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

import ledgers
from planners import NAME, declared, plan, ranges, ranges_of, run
from tideline import flow
from tideline.domain.facts import TopicFacts
from tideline.errors import NeedsOperatorError, RetryableError
from tideline.kafka import Broker
from tideline.ledger import publishing, reservations
from tideline.ledger.connection import Ledger
from topics import created, produce, until

PLANNERS = 8
PARTITIONS = 12
MINUTE = timedelta(minutes=1)


@pytest.fixture
def topic(admin):
    return created(admin, f"races_{uuid4().hex[:8]}", partitions=2)


def together(*calls):
    """Run all at the same moment, each in a thread of its own; their results in order."""
    start = threading.Barrier(len(calls))

    def wait_and(call):
        start.wait(20)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(wait_and, calls))


@contextmanager
def producing(bootstrap, topic):
    """Records keep coming in all partitions until the end of the block."""
    stop = threading.Event()

    def work():
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        while not stop.is_set():
            for partition in range(PARTITIONS):
                producer.produce(topic, b"x", partition=partition)
            producer.flush(20)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def finish(ledger, batch_ids):
    """Publish the batches and move the heads over them."""
    for batch_id in batch_ids:
        attempt = ledgers.claim(ledger, batch_id)
        ledgers.stage(ledger, attempt)
        ledgers.publish(ledger, attempt)


def test_planners_at_once_never_overlap_and_leave_no_hole(broker, admin, ledger, ledger_url):
    topic = created(admin, f"races_{uuid4().hex[:8]}", partitions=PARTITIONS)
    pipeline = declared(broker.bootstrap, topic, batch_records=25, run_batches=3)
    with producing(broker.bootstrap, topic):
        for turn in range(3):
            given = together(*(lambda n=n, t=turn: plan(ledger_url, pipeline, f"run {t} {n}") for n in range(PLANNERS)))
            finish(ledger, given[0][:3])  # some heads move while others plan
    whole = declared(broker.bootstrap, topic)
    plan(ledger_url, whole, "the rest")
    asked = {p.partition: p.end for p in Broker(whole.source).topic_facts()[0].partitions}
    found = ranges(ledger)
    assert len(found) == PARTITIONS
    for (_, partition), pieces in found.items():
        assert pieces[0][0] == 0
        assert all(left[1] == right[0] for left, right in pairwise(pieces))
        assert pieces[-1][1] == asked[partition]


def test_no_stream_stops_because_planners_heard_of_different_ends(broker, admin, ledger, ledger_url):
    """A planner with an older answer of the broker must not take the newer end of another for a log that was cut."""
    topic = created(admin, f"races_{uuid4().hex[:8]}", partitions=PARTITIONS)
    pipeline = declared(broker.bootstrap, topic)
    with producing(broker.bootstrap, topic):
        for turn in range(5):
            together(*(lambda n=n, t=turn: plan(ledger_url, pipeline, f"run {t} {n}") for n in range(PLANNERS)))
    with ledger.transaction():
        assert ledger.rows("list_stopped_streams", pipeline=NAME) == []


def test_a_run_that_is_asked_twice_at_once_gets_the_same_batches(broker, topic, ledger_url):
    pipeline = declared(broker.bootstrap, topic, batch_records=4)
    for turn in range(4):
        produce(broker, topic, 10)
        first, second = together(*[lambda t=turn: plan(ledger_url, pipeline, f"run {t}")] * 2)
        assert first == second
        assert first


def test_open_batches_come_first(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic, batch_records=5)
    produce(broker, topic, 10)
    left_behind = plan(ledger_url, pipeline, "first")
    produce(broker, topic, 5)
    given = plan(ledger_url, pipeline, "second")
    assert given[:2] == left_behind
    assert [ranges_of(ledger, batch_id) for batch_id in given] == [{0: (0, 5)}, {0: (5, 10)}, {0: (10, 15)}]
    finish(ledger, given[:1])
    assert plan(ledger_url, pipeline, "third") == given[1:]


def test_a_cleared_run_gets_its_old_batches_whatever_became_of_them(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic, batch_records=5)
    produce(broker, topic, 10)
    given = plan(ledger_url, pipeline, "first")
    finish(ledger, given)
    flow.advance(ledger, NAME, run("first"))
    produce(broker, topic, 10)
    assert plan(ledger_url, pipeline, "first") == given


def test_nothing_to_do_plans_nothing(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    assert plan(ledger_url, pipeline, "empty topic") == []
    produce(broker, topic, 3)
    given = plan(ledger_url, pipeline, "first")
    finish(ledger, given)
    assert plan(ledger_url, pipeline, "nothing new") == []
    assert ranges(ledger) == {(topic, 0): [(0, 3)]}


def test_a_plan_finishes_the_heads_of_what_was_published_before(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 3)
    finish(ledger, plan(ledger_url, pipeline, "first"))
    plan(ledger_url, pipeline, "second")
    with ledger.transaction():
        assert [stream.next_offset for stream in reservations.streams(ledger, NAME)] == [3, 0]


def test_a_new_partition_starts_at_its_first_offset_though_the_topic_began_at_its_latest(
    broker, admin, topic, ledger, ledger_url
):
    pipeline = declared(broker.bootstrap, topic, start="latest")
    produce(broker, topic, 5)
    assert plan(ledger_url, pipeline, "first") == []
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
    until(lambda: len(Broker(pipeline.source).topic_facts()[0].partitions) == 3)
    produce(broker, topic, 4, partition=2)
    plan(ledger_url, pipeline, "second")
    assert ranges(ledger) == {(topic, 2): [(0, 4)]}


def test_a_stream_starts_at_the_declared_time(broker, topic, ledger, ledger_url):
    t0 = datetime(2026, 1, 2, tzinfo=UTC)
    for minutes in range(5):
        produce(broker, topic, timestamp=milliseconds(t0 + minutes * MINUTE))
    plan(ledger_url, declared(broker.bootstrap, topic, start=(t0 + 2 * MINUTE).isoformat()), "first")
    assert ranges(ledger) == {(topic, 0): [(2, 5)]}


def milliseconds(when):
    return int(when.timestamp() * 1000)


def test_a_run_ends_at_its_time_and_the_next_one_goes_on_there(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    t0 = datetime(2026, 1, 2, tzinfo=UTC)
    for minutes in range(5):
        produce(broker, topic, timestamp=milliseconds(t0 + minutes * MINUTE))
    assert plan(ledger_url, pipeline, "before all", until=t0) == []
    plan(ledger_url, pipeline, "early", until=t0 + 3 * MINUTE)
    assert ranges(ledger) == {(topic, 0): [(0, 3)]}
    plan(ledger_url, pipeline, "late")
    assert ranges(ledger) == {(topic, 0): [(0, 3), (3, 5)]}


def test_a_run_of_the_past_never_plans_behind_the_head(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    t0 = datetime(2026, 1, 2, tzinfo=UTC)
    produce(broker, topic, 3, timestamp=milliseconds(t0))
    finish(ledger, plan(ledger_url, pipeline, "all"))
    assert plan(ledger_url, pipeline, "of the past", until=t0 - MINUTE) == []


def test_another_cluster_is_refused(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 3)
    elsewhere = TopicFacts(cluster_id="else", topic=topic, topic_id=UUID(int=1), compacted=False, partitions=())
    with ledger.transaction():
        reservations.lock_pipeline(ledger, NAME)
        reservations.start_stream(ledger, NAME, elsewhere, 0, 0)
    with pytest.raises(NeedsOperatorError, match="expected cluster else at the declared address, found cluster"):
        plan(ledger_url, pipeline, "first")
    assert ranges(ledger) == {}


def test_a_stopped_stream_does_not_hold_the_others(broker, admin, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    plan(ledger_url, pipeline, "begin")
    produce(broker, topic, 9, partition=0)
    produce(broker, topic, 4, partition=1)
    admin.delete_records([TopicPartition(topic, 0, 6)])[TopicPartition(topic, 0)].result()
    for number in range(2):
        given = plan(ledger_url, pipeline, f"run {number}")
        finish(ledger, given)
        produce(broker, topic, 4, partition=1)
    assert ranges(ledger) == {(topic, 1): [(0, 4), (4, 8)]}
    with pytest.raises(NeedsOperatorError, match=rf"{topic}/0 at offset 0: offsets \[0, 6\) are gone"):
        flow.advance(ledger, NAME, run("run 1"))
    with ledger.transaction():
        assert [stream.next_offset for stream in reservations.streams(ledger, NAME)] == [0, 8]


def test_a_run_with_nothing_but_stopped_streams_fails_and_says_so(broker, admin, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    plan(ledger_url, pipeline, "begin")
    produce(broker, topic, 9)
    admin.delete_records([TopicPartition(topic, 0, 6)])[TopicPartition(topic, 0)].result()
    for name in ("first", "second"):
        with pytest.raises(NeedsOperatorError, match=r"offsets \[0, 6\) are gone"):
            plan(ledger_url, pipeline, name)
    with ledger.transaction(), ledger.connection.cursor() as cursor:
        cursor.execute("SELECT actor FROM tideline.event WHERE action = 'stop'")
        assert cursor.fetchall() == [["first"]]


def test_a_run_plans_no_more_batches_than_it_may(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic, batch_records=10, run_batches=2)
    produce(broker, topic, 45)
    assert len(plan(ledger_url, pipeline, "first")) == 2
    finish(ledger, plan(ledger_url, pipeline, "second"))
    assert ranges(ledger) == {(topic, 0): [(0, 10), (10, 20), (20, 30), (30, 40)]}
    assert len(plan(ledger_url, pipeline, "third")) == 1


def impatient(url):
    """A session that waits for no lock."""
    ledger = Ledger(url, actor="impatient")
    with ledger.connection as connection:
        connection.cursor().execute("SET lock_timeout = '1s'")
    return ledger


def test_a_plan_does_not_wait_for_a_publish(broker, topic, ledger, ledger_url):
    """To publish a large batch takes minutes; a plan gives the very batch to the next run meanwhile."""
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 3)
    [batch_id] = plan(ledger_url, pipeline, "first")
    attempt = ledgers.claim(ledger, batch_id)
    ledgers.stage(ledger, attempt)
    given = []

    def insert_output(_):
        with impatient(ledger_url) as other:
            given.extend(flow.plan(other, Broker(pipeline.source), pipeline, run("second"), until=None))
        return {piece.stream_id: 3 for piece in attempt.ranges}

    facts = {piece.stream_id: Broker(pipeline.source).topic_facts()[0].partitions[0] for piece in attempt.ranges}
    publishing.publish(ledger, attempt, insert_output, facts=facts, filtered_by_difference=False)
    assert given == [batch_id]


def test_a_publish_does_not_wait_for_a_plan(broker, topic, ledger, ledger_url):
    """A plan holds its locks for as long as the broker takes to answer."""
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 3)
    [batch_id] = plan(ledger_url, pipeline, "first")
    with ledger.transaction(), impatient(ledger_url) as other:
        reservations.lock_pipeline(ledger, NAME)
        reservations.streams(ledger, NAME)
        finish(other, [batch_id])


def test_a_plan_that_cannot_have_its_turn_is_to_be_tried_again(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    plan(ledger_url, pipeline, "first")
    with ledger.transaction(), impatient(ledger_url) as other:
        reservations.lock_pipeline(ledger, NAME)
        with pytest.raises(RetryableError, match="lock timeout"):
            flow.plan(other, Broker(pipeline.source), pipeline, run("second"), until=None)
