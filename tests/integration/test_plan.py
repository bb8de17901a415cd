"""Properties of a single planner, on a real broker and a real ledger."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions

from given_ledger.ledgers import plan as reserved
from given_ledger.ledgers import start_streams
from given_ledger.planners import NAME, declared, finish, plan, ranges, ranges_of, run
from given_topics.topics import produce, until
from tideline import flow
from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.errors import NeedsOperatorError
from tideline.kafka.broker import Broker
from tideline.ledger import reservations

pytestmark = pytest.mark.topic(partitions=2)

MINUTE = timedelta(minutes=1)


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


def test_a_new_partition_starts_at_its_first_offset_even_under_start_latest(broker, admin, topic, ledger, ledger_url):
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
        reservations.start_stream(ledger, NAME, elsewhere, PartitionFacts(partition=0, log_start=0, end=0), 0)
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


def test_the_line_of_a_batch_can_be_repeated(ledger):
    one, two = start_streams(ledger, 2)
    batch_id = reserved(ledger, {one: (0, 10), two: (3, 5)})
    [line] = flow.describe(ledger, [batch_id])
    assert line == f"batch {batch_id} (live): ads/0 [0, 10), ads/1 [3, 5)"
