"""The checker's truth agrees with what any reader of committed records sees."""

from base64 import urlsafe_b64decode
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Producer, TopicCollection, TopicPartition

from faults.checker import Remembered
from faults.checker.facts import Expected, Record, Stream
from faults.checker.kafka_truth import KafkaTruth
from given_topics.topics import recreate

HEADERS = [("any", bytes(range(256))), ("any", b""), ("null", None)]


@pytest.fixture
def stream(admin, topic):
    topic_id = str(admin.describe_topics(TopicCollection([topic]))[topic].result().topic_id)
    return Stream(1, "c", topic, as_uuid(topic_id), 0, 0, 0)


def as_uuid(text):
    """Decode a UUID, which Kafka writes in URL-safe base 64."""
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def truth_of(broker, remembered=None):
    return KafkaTruth(broker.bootstrap, lambda *_: Expected(frozenset({"written"})), remembered)


def produce(broker, topic, *values):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(20) == 0


def offsets(found):
    return [record.offset for record in found]


def test_records_come_as_they_are(broker, topic, stream):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"v", key=b"", timestamp=7, headers=HEADERS)
    producer.produce(topic, None, key=None, timestamp=8)
    assert producer.flush(20) == 0
    found = list(truth_of(broker).records(stream, 0, 2))
    assert found == [Record(0, 7, b"", b"v", tuple(HEADERS)), Record(1, 8, None, None, None)]


def test_markers_and_aborted_records_are_not_read_and_the_end_is_the_committed_one(broker, topic, stream):
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": uuid4().hex})
    producer.init_transactions(20)
    for end in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for _ in range(2):
            producer.produce(topic, b"x", partition=0)
        producer.flush(20)  # records that are aborted before they were sent take no offsets
        end(20)
    truth = truth_of(broker)
    assert offsets(truth.records(stream, 0, 9)) == [0, 1, 6, 7]
    assert offsets(truth.records(stream, 1, 6)) == [1]
    assert offsets(truth.records(stream, 2, 6)) == []
    assert truth.end(stream) == 9
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.flush(20)
    assert truth.end(stream) == 9
    assert offsets(truth.records(stream, 7, 20)) == [7]
    producer.abort_transaction(20)


def test_what_the_broker_has_no_more_is_remembered(broker, admin, topic, stream):
    produce(broker, topic, *[b"x"] * 5)
    place = TopicPartition(topic, 0, 3)
    admin.delete_records([place])[place].result(180)
    log = [Record(offset, value=b"remembered") for offset in range(4)]
    remembered = Remembered({(stream.topic_id, 0): log}, expected=lambda *_: None)
    found = list(truth_of(broker, remembered).records(stream, 1, 5))
    assert [(record.offset, record.value) for record in found] == [
        (1, b"remembered"),
        (2, b"remembered"),
        (3, b"x"),
        (4, b"x"),
    ]
    assert offsets(truth_of(broker).records(stream, 1, 5)) == [3, 4]


def test_a_topic_that_was_created_again_is_not_taken_for_the_old_one(broker, admin, topic, stream):
    produce(broker, topic, b"old", b"old")
    remembered = Remembered({(stream.topic_id, 0): [Record(0, value=b"old")]}, expected=lambda *_: None)
    recreate(admin, topic)
    produce(broker, topic, b"new")
    truth = truth_of(broker, remembered)
    assert ([record.value for record in truth.records(stream, 0, 2)], truth.end(stream)) == ([b"old"], 1)
    assert (list(truth_of(broker).records(stream, 0, 2)), truth_of(broker).end(stream)) == ([], 0)
    gone = replace(stream, topic="no_such_topic")
    assert truth.end(gone) == 1
