"""The newest records of topics with their content, as people look at them: bounded, at the source's isolation level, in no group."""

import time
from uuid import uuid4

from confluent_kafka import Producer, TopicPartition

from given_topics.topics import created, produce, source, transaction
from tideline.kafka.broker import Broker
from tideline.kafka.newest_records import newest_records
from tideline.kafka.settings import client_settings

SECONDS = 60


def newest(broker, *topics, count, seconds=SECONDS):
    read = source(broker.bootstrap, *topics)
    return newest_records(client_settings(read.brokers), Broker(read).topic_facts(), count, seconds=seconds)


def places(found):
    return [(record.partition, record.offset) for record in found.records]


def test_the_newest_records_come_with_all_their_content(broker, topic):
    produce(broker, topic, 5)
    later = int(time.time() * 1000) + 60_000
    produce(broker, topic, 1, key=b"\xff", headers=[("trace", b"\x00"), ("empty", None)], timestamp=later)
    found = newest(broker, topic, count=3)
    assert places(found) == [(0, 3), (0, 4), (0, 5)]
    last = found.records[-1]
    assert (last.topic, last.key, last.value) == (topic, b"\xff", b"x")
    assert (last.timestamp_ms, last.headers) == (later, (("trace", b"\x00"), ("empty", None)))
    assert found.gappy == frozenset()


def test_a_topic_without_records_gives_none(broker, topic):
    assert newest(broker, topic, count=10).records == []


def test_a_partition_with_few_records_leaves_its_share_to_the_others(broker, admin):
    topic = created(admin, f"events_{uuid4().hex[:8]}", partitions=3)
    produce(broker, topic, 2, partition=0)
    produce(broker, topic, 30, partition=1)
    found = newest(broker, topic, count=12)
    assert len(found.records) == 12
    assert {partition for partition, _ in places(found)} <= {0, 1}


def test_only_committed_records_come_and_markers_count_as_gaps(broker, topic):
    for _ in range(6):
        transaction(broker, topic, [0]).commit_transaction(20)
    transaction(broker, topic, [0], count=200).abort_transaction(20)
    opened = transaction(broker, topic, [0], count=5)
    found = newest(broker, topic, count=4)
    assert places(found) == [(0, 4), (0, 6), (0, 8), (0, 10)]
    assert found.gappy == {topic}
    opened.abort_transaction(20)


def test_a_topic_of_which_only_markers_are_left_has_no_records(broker, topic):
    transaction(broker, topic, [0], count=3).abort_transaction(20)
    assert newest(broker, topic, count=4).records == []


def test_the_search_ends_at_the_log_start(broker, admin, topic):
    produce(broker, topic, 10)
    admin.delete_records([TopicPartition(topic, 0, 7)])[TopicPartition(topic, 0)].result()
    assert places(newest(broker, topic, count=100)) == [(0, 7), (0, 8), (0, 9)]


def test_five_hundred_partitions_are_read_by_one_consumer_in_bounded_time(broker, admin):
    topic = created(admin, f"wide_{uuid4().hex[:8]}", partitions=500)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(2000):
        producer.produce(topic, str(number), partition=number % 500)
    assert producer.flush(60) == 0
    begin = time.monotonic()
    found = newest(broker, topic, count=1000)
    assert len(found.records) == 1000
    assert len(set(places(found))) == 1000
    assert time.monotonic() - begin < SECONDS


def test_looking_creates_no_group(broker, admin, topic):
    produce(broker, topic, 5)
    newest(broker, topic, count=3)
    groups = admin.list_consumer_groups().result()
    assert [group.group_id for group in groups.valid if "look" in group.group_id] == []
