"""Planning on a real broker and a real ledger: new offsets are reserved once, whatever the number of concurrent planners."""

import threading
from contextlib import contextmanager
from itertools import pairwise
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from given_ledger import ledgers
from given_ledger.planners import NAME, declared, finish, plan, ranges, run
from given_topics.topics import created, produce
from servers.concurrency import together
from tideline import flow
from tideline.domain.requests import NewRecords
from tideline.errors import RetryableError
from tideline.kafka.broker import Broker
from tideline.ledger import publishing, reservations
from tideline.ledger.connection import Ledger

pytestmark = pytest.mark.topic(partitions=2)

PLANNERS = 8
PARTITIONS = 12


@contextmanager
def producing(bootstrap, topic):
    """Produce records to all partitions until the end of the block."""
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
    """A planner with an older answer of the broker must not take another planner's newer end for a truncated log."""
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


def impatient(url):
    """Open a session that waits for no lock."""
    ledger = Ledger(url, actor="impatient")
    with ledger.connection as connection:
        connection.cursor().execute("SET lock_timeout = '1s'")
    return ledger


def test_a_plan_does_not_wait_for_a_publish(broker, topic, ledger, ledger_url):
    """Publishing a large batch takes minutes; meanwhile a plan gives the same batch to the next run."""
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 3)
    [batch_id] = plan(ledger_url, pipeline, "first")
    attempt = ledgers.claim(ledger, batch_id)
    ledgers.stage(ledger, attempt)
    given = []

    def insert_output(_):
        with impatient(ledger_url) as other:
            given.extend(flow.plan(other, Broker(pipeline.source), pipeline, run("second"), NewRecords()).batch_ids)
        return publishing.Written(n_written={piece.stream_id: 3 for piece in attempt.ranges})

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
            flow.plan(other, Broker(pipeline.source), pipeline, run("second"), NewRecords())
