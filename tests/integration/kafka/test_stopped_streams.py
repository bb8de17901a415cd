"""Stopped streams, next to active ones."""

from uuid import uuid4

import pytest

from given_ledger import ledgers
from given_ledger.decisions import Cut, adopt, stopped
from given_ledger.ledgers import query, state
from given_ledger.planners import NAME, declared, load, plan, ranges_of, run
from given_topics.topics import created, delete_before, exists, produce, until
from tideline import flow
from tideline.errors import FatalError, NeedsOperatorError
from tideline.ledger import heads
from tideline.ledger.connection import Ledger

pytestmark = pytest.mark.topic(partitions=2)


@pytest.fixture
def cut(ledger):
    """Provide a pipeline over logs in memory: a real broker does not truncate logs on request."""
    return Cut(ledger)


def test_a_batch_with_a_stopped_stream_is_left_to_its_writer(broker, admin, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 4)
    produce(broker, topic, 3, partition=1)
    [batch_id] = plan(ledger_url, pipeline, "first")
    attempt = ledgers.claim(ledger, batch_id)
    query(ledger, "UPDATE tideline.stream SET state = 'stopped', stopped_because = 'offsets' WHERE partition = 0")
    assert plan(ledger_url, pipeline, "second") == [batch_id]
    ledgers.attempts.fail(ledger, attempt, "unreadable")
    [healthy] = plan(ledger_url, pipeline, "third")
    assert state(ledger, batch_id)[0] == "abandoned"
    assert ranges_of(ledger, healthy) == {1: (0, 3)}
    said = query(ledger, "SELECT actor, detail ->> 'reason' FROM tideline.event WHERE action = 'abandon'")
    assert said == [("third", "a stream of it has stopped; the others are planned again")]


def test_a_plan_does_not_wait_for_the_publishing_of_a_batch_with_a_stopped_stream(ledger, ledger_url, cut):
    [batch_id] = cut.plan()
    ledgers.claim(ledger, batch_id)
    query(ledger, "UPDATE tideline.stream SET state = 'stopped', stopped_because = 'offsets' WHERE partition = 0")
    with Ledger(ledger_url, actor="publisher") as other, other.transaction():
        other.rows("lock_batch", batch_id=batch_id)
        query(ledger, "SET lock_timeout = '500ms'")
        assert cut.plan() == [batch_id]


def test_a_stopped_stream_of_an_undeclared_topic_rests_until_it_is_declared_again(
    broker, admin, topic, ledger, ledger_url
):
    other = created(admin, f"other_{uuid4().hex[:8]}")
    both = declared(broker.bootstrap, topic, other)
    plan(ledger_url, both, "begin")
    produce(broker, topic, 4)
    produce(broker, other, 4)
    delete_before(admin, topic, 2)
    load(ledger, plan(ledger_url, both, "first"))
    assert [row[:2] for row in stopped(ledger)] == [(topic, 0)]
    alone = declared(broker.bootstrap, other)
    assert plan(ledger_url, alone, "second") == []
    assert stopped(ledger) == []
    flow.advance(ledger, NAME, run("second"))
    with pytest.raises(NeedsOperatorError, match=r"offsets \[0, 2\) are gone"):
        plan(ledger_url, both, "third")


def test_a_missing_topic_stops_its_streams_and_an_unknown_one_is_a_mistake(broker, admin, topic, ledger, ledger_url):
    other = created(admin, f"other_{uuid4().hex[:8]}")
    pipeline = declared(broker.bootstrap, topic, other)
    plan(ledger_url, pipeline, "begin")
    admin.delete_topics([topic])[topic].result()
    until(lambda: not exists(admin, topic))
    produce(broker, other, 4)
    with pytest.raises(FatalError, match="never_there"):
        plan(ledger_url, declared(broker.bootstrap, topic, other, "never_there"), "mistaken")
    assert stopped(ledger) == []
    [batch_id] = load(ledger, plan(ledger_url, pipeline, "first"))
    assert [row[:2] for row in stopped(ledger)] == [(topic, 0), (topic, 1)]
    with pytest.raises(NeedsOperatorError, match=f"{topic}/0 at offset 0: the topic is gone"):
        flow.advance(ledger, NAME, run("first"))
    assert state(ledger, batch_id)[0] == "advanced"
    with pytest.raises(FatalError, match=f"{topic} is not there"):
        adopt(ledger_url, pipeline, topic)
    created(admin, topic)
    adopt(ledger_url, pipeline, topic)
    assert heads.stopped_streams(ledger, NAME) == []
