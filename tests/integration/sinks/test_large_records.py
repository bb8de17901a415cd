"""Records of forty megabytes: they are read, sent or rejected at once, and hold no other record up."""

import json
import os

import pytest
from confluent_kafka import Producer

from given_topics import topics
from given_topics.output_topics import committed_count, committed_records, origin, output, receipt
from identities import batch
from loads.kafka_loading import output_of
from tideline.errors import RetryableError
from tideline.sinks.kafka.kafka_topic import ORIGIN, Message

LARGE, LIMIT = 40 << 20, 64 << 20


@pytest.fixture
def wide(admin, topic):
    """Return a source topic that takes records of 64 MB."""
    return topics.created(admin, f"{topic}_wide", **{"max.message.bytes": str(LIMIT)})


def produced(servers, topic, *values):
    producer = Producer({"bootstrap.servers": servers, "message.max.bytes": LIMIT})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(120) == 0


def two_records():
    """Return a record of 40 MB, and one of some bytes behind it."""
    return [json.dumps({"id": number, "name": name}).encode() for number, name in enumerate(("x" * LARGE, "small"))]


def rows(*values):
    return [
        Message(key=None, value=value, headers=[(ORIGIN, origin(7, number).encode())])
        for number, value in enumerate(values)
    ]


def test_a_record_that_the_topic_takes_is_sent_at_once_however_large_it_is(broker, wide):
    """The queue of the client must have room for it: else it waits for room that never comes."""
    sink = output(broker.bootstrap, wide, pipeline=wide)
    limits = sink.limits()
    assert limits.max_bytes == LIMIT
    own = receipt(1)
    sent = rows(b"small", os.urandom(LARGE), b"small", os.urandom(LARGE))
    assert sink.commit(batch(7), own, iter(sent), len(sent), max_bytes=limits.max_bytes) == own
    assert [len(one.value()) for one in committed_records(broker.bootstrap, wide)] == [5, LARGE, 5, LARGE]


def test_a_record_that_the_topic_does_not_take_is_an_error_at_once(broker, wide):
    sink = output(broker.bootstrap, wide, pipeline=wide)
    with pytest.raises(RetryableError, match="larger than the topic takes"):
        sink.commit(batch(7), receipt(1), iter(rows(b"small", os.urandom(LARGE))), 2)
    assert committed_count(broker.bootstrap, wide) == 0


def test_a_topic_takes_no_more_than_a_request_of_its_brokers_may_hold(admin, broker, topic):
    out = output_of(admin, topic, 1, **{"max.message.bytes": str(500 << 20)})
    assert output(broker.bootstrap, out).limits().max_bytes == 104_857_600 - 16_384


def test_a_load_sends_a_large_record_and_its_neighbour(loads, admin, wide):
    out = output_of(admin, wide, 1, **{"max.message.bytes": str(LIMIT)})
    loads.declare_topic(wide, out)
    produced(loads.bootstrap, wide, *two_records())
    assert loads.run() == [1]
    loads.expect(out, [(0, 0), (0, 1)])
    assert loads.counts() == {"n_read": 2, "n_written": 2, "n_rejected": 0, "n_filtered": 0, "n_gap": 0}


def test_a_load_rejects_a_large_record_that_the_output_does_not_take_and_sends_its_neighbour(loads, admin, wide):
    out = output_of(admin, wide, 1)
    loads.declare_topic(wide, out)
    sent = two_records()
    produced(loads.bootstrap, wide, *sent)
    assert loads.run() == [1]
    loads.expect(out, [(0, 1)])
    [(reason, size)] = loads.rows("SELECT reason, length(value) FROM tideline.reject")
    assert "more bytes than the" in reason
    assert size == len(sent[0])
