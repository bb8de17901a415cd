"""Facts from a real broker."""

from concurrent.futures import wait
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import OffsetSpec

from given_topics.topics import created, ends, exists, produce, recreate, source, transaction, until
from tideline.declaration import Source
from tideline.errors import FatalError, RetryableError
from tideline.kafka.broker import Broker

T0 = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_the_end_stays_before_an_open_transaction_in_every_partition(broker, admin):
    topic = created(admin, f"open_{uuid4().hex[:8]}", partitions=6)
    for partition in range(6):
        produce(broker, topic, 10, partition)
    producer = transaction(broker, topic, (1, 2, 5), count=3)
    produce(broker, topic, 4, partition=2)  # committed, but behind the open transaction
    asked = Broker(source(broker.bootstrap, topic))
    assert ends(asked) == [10] * 6
    assert ends(asked) == watermarks(broker, topic, 6)
    producer.abort_transaction(20)
    # In each partition the transaction leaves one marker, which takes an offset.
    until(lambda: ends(asked) == [10, 14, 18, 10, 10, 14])


def watermarks(broker, topic, partitions):
    """Return the end offsets that Kafka's consumers use: another request, one partition at a time."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "test", "isolation.level": "read_committed"}
    consumer = Consumer(settings)
    try:
        return [consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=180)[1] for p in range(partitions)]
    finally:
        consumer.close()


def test_committed_and_aborted_transactions_count_their_markers(broker, topic):
    transaction(broker, topic, [0], count=5).commit_transaction(20)
    transaction(broker, topic, [0], count=2).abort_transaction(20)
    asked = Broker(source(broker.bootstrap, topic))
    until(lambda: ends(asked) == [5 + 1 + 2 + 1])


def test_the_log_start_is_the_oldest_offset_that_is_left(broker, admin, topic):
    produce(broker, topic, 10)
    admin.delete_records([TopicPartition(topic, 0, 4)])[TopicPartition(topic, 0)].result()
    [facts] = Broker(source(broker.bootstrap, topic)).topic_facts()
    assert [(p.partition, p.log_start, p.end) for p in facts.partitions] == [(0, 4, 10)]


def test_all_topics_come_at_once_in_order_with_their_ids(broker, admin, topic):
    other = created(admin, f"another_{uuid4().hex[:8]}", partitions=3, **{"cleanup.policy": "compact,delete"})
    first, second = Broker(source(broker.bootstrap, topic, other)).topic_facts()
    assert (first.topic, len(first.partitions), first.compacted) == (topic, 1, False)
    assert (second.topic, len(second.partitions), second.compacted) == (other, 3, True)
    assert first.topic_id != second.topic_id
    assert first.cluster_id == second.cluster_id == admin.describe_cluster().result().cluster_id


@pytest.mark.parametrize(
    ("policy", "milliseconds", "expected"),
    [("delete", 90_000, 90_000), ("compact,delete", 0, 0), ("delete", -1, None), ("compact", 90_000, None)],
)
def test_the_retention_is_that_of_topics_whose_records_are_deleted_by_age(
    broker, admin, policy, milliseconds, expected
):
    config = {"cleanup.policy": policy, "retention.ms": str(milliseconds)}
    topic = created(admin, f"retention_{uuid4().hex[:8]}", **config)
    [facts] = Broker(source(broker.bootstrap, topic)).topic_facts()
    assert facts.retention_ms == expected


def test_a_pattern_finds_its_topics_by_name_and_the_new_ones_the_next_time(broker, admin, caplog):
    mark = uuid4().hex[:8]
    created(admin, f"x_ads_{mark}_a")
    asked = Broker(by_pattern(broker, f"^(ads|__ads)_{mark}_.*$"))
    assert asked.topic_facts() == []
    assert f"no topic fits source.topic_pattern ^(ads|__ads)_{mark}_.*$ yet" in caplog.text
    for name in ("ads_{}_b", "__ads_{}_c", "ads_{}_a"):
        created(admin, name.format(mark))
    assert [facts.topic for facts in asked.topic_facts()] == [f"ads_{mark}_a", f"ads_{mark}_b"]
    assert caplog.text.count("no topic fits") == 1


def by_pattern(broker, pattern):
    declared = {"bootstrap_servers": broker.bootstrap, "topic_pattern": pattern, "value": {"format": "bytes"}}
    return Source.model_validate(declared, context="impressions")


def test_a_topic_that_the_ledger_knows_of_a_pattern_may_be_missing(broker, topic):
    asked = Broker(by_pattern(broker, f"^{topic}.*$"))
    found = asked.topic_facts()
    assert asked.missing(found) == {}
    assert list(asked.missing(found, known=[topic, f"{topic}_gone", "no_longer_declared"])) == [f"{topic}_gone"]


def test_a_topic_that_was_created_again_has_another_id(broker, admin, topic):
    asked = Broker(source(broker.bootstrap, topic))
    [before] = asked.topic_facts()
    recreate(admin, topic)
    [after] = asked.topic_facts()
    assert after.topic_id != before.topic_id


def recreating(asked, admin, topic, times):
    """Delete and create `topic` again during the next questions, after the offsets are listed."""
    listed, left = asked._bounds, iter(range(times))

    def bounds(partitions):
        found = listed(partitions)
        if next(left, None) is not None:
            recreate(admin, topic)
        return found

    return bounds


def test_offsets_are_never_given_to_another_incarnation_of_the_topic(broker, admin, topic, monkeypatch):
    produce(broker, topic, 5)
    asked = Broker(source(broker.bootstrap, topic))
    [before] = asked.topic_facts()
    monkeypatch.setattr(asked, "_bounds", recreating(asked, admin, topic, times=1))
    [after] = asked.topic_facts()
    assert (before.partitions[0].end, after.partitions[0].end) == (5, 0)
    assert after.topic_id != before.topic_id


def test_a_topic_that_keeps_being_created_again_is_asked_later(broker, admin, topic, monkeypatch):
    asked = Broker(source(broker.bootstrap, topic))
    monkeypatch.setattr(asked, "_bounds", recreating(asked, admin, topic, times=2))
    with pytest.raises(RetryableError, match="being deleted and created again"):
        asked.topic_facts()


def test_a_topic_that_is_deleted_during_the_question_is_missing(broker, admin, topic, monkeypatch):
    other = created(admin, f"another_{uuid4().hex[:8]}")
    asked = Broker(source(broker.bootstrap, topic, other))
    described = asked._described

    def with_deletion(names):
        found = described(names)
        if exists(admin, topic):
            admin.delete_topics([topic])[topic].result()
        return found

    monkeypatch.setattr(asked, "_described", with_deletion)
    found = asked.topic_facts()
    assert [facts.topic for facts in found] == [other]
    assert list(asked.missing(found)) == [topic]


@pytest.mark.parametrize(
    ("when", "offset"),
    [
        (T0 - timedelta(days=30_000), 0),  # before 1970
        (T0 - SECOND, 0),
        (T0, 0),
        (T0 + timedelta(microseconds=1), 1),
        (T0 + timedelta(milliseconds=500), 1),
        (T0 + SECOND, 1),
        (T0 + 2 * SECOND, 2),
        (T0 + 3 * SECOND, 3),
    ],
)
def test_the_offset_at_a_time_is_the_first_record_at_or_after_it(broker, topic, when, offset):
    for second in range(3):
        produce(broker, topic, timestamp=int((T0 + second * SECOND).timestamp() * 1000))
    assert Broker(source(broker.bootstrap, topic)).offsets_at({(topic, 0): when})[topic, 0].offset == offset


def test_the_offset_at_a_time_stays_between_log_start_and_last_stable_offset(broker, admin):
    # The records are old: without this, Kafka deletes them whenever its retention is next applied.
    topic = created(admin, f"times_{uuid4().hex[:8]}", partitions=3, **{"retention.ms": "-1"})
    milliseconds = int(T0.timestamp() * 1000)
    for partition in (0, 1):
        produce(broker, topic, 10, partition, timestamp=milliseconds)
    admin.delete_records([TopicPartition(topic, 0, 4)])[TopicPartition(topic, 0)].result()
    producer = transaction(broker, topic, [1], count=3)  # timestamps of now
    asked = Broker(source(broker.bootstrap, topic))

    def found(when):
        return {
            number: (answer.offset, answer.timestamp)
            for (_, number), answer in asked.offsets_at({(topic, n): when for n in range(3)}).items()
        }

    assert found(T0) == {0: (4, milliseconds), 1: (0, milliseconds), 2: (0, None)}
    assert found(T0 + SECOND) == {0: (10, None), 1: (10, None), 2: (0, None)}
    producer.abort_transaction(20)


class Arriving:
    """An admin client whose listing of offsets is another one."""

    def __init__(self, admin, listing):
        self._admin, self.list_offsets = admin, listing

    def __getattr__(self, name):
        return getattr(self._admin, name)


def test_records_that_arrive_during_the_question_are_not_skipped(broker, topic, monkeypatch):
    produce(broker, topic, 10, timestamp=int(T0.timestamp() * 1000))
    asked = Broker(source(broker.bootstrap, topic))
    admin = asked._connection.admin
    listed = admin.list_offsets

    def with_arrivals(specs, **named):
        found = listed(specs, **named)
        if OffsetSpec.latest() in specs.values():
            wait(found.values())
            for second in (0, 1):
                produce(broker, topic, timestamp=int((T0 + second * SECOND).timestamp() * 1000))
        return found

    monkeypatch.setattr(asked._connection, "admin", Arriving(admin, with_arrivals))
    assert asked.offsets_at({(topic, 0): T0 + SECOND})[topic, 0].offset == 10
    assert asked.offsets_at({(topic, 0): T0 + SECOND})[topic, 0].offset == 11


@pytest.fixture
def group():
    return f"tideline.{uuid4().hex[:8]}"


def shown(admin, group):
    """Return the offsets that a tool for consumer groups shows."""
    asked = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(asked)[group].result().topic_partitions
    return {(partition.topic, partition.partition): partition.offset for partition in found}


def test_heads_are_shown_as_the_offsets_of_a_consumer_group(broker, admin, topic, group):
    other = created(admin, f"another_{uuid4().hex[:8]}", partitions=2)
    asked = Broker(source(broker.bootstrap, topic, other))
    asked.commit_heads(group, {})
    heads = {(topic, 0): 7, (other, 0): 0, (other, 1): 2**40}
    asked.commit_heads(group, heads)
    assert shown(admin, group) == heads
    asked.commit_heads(group, {(topic, 0): 3})
    assert shown(admin, group) == heads | {(topic, 0): 3}


def test_a_group_with_a_member_is_refused_and_keeps_its_offsets(broker, admin, topic, group):
    asked = Broker(source(broker.bootstrap, topic))
    asked.commit_heads(group, {(topic, 0): 3})
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.1) or consumer.assignment())
        with pytest.raises(FatalError, match=f"group {group}: expected no members, found a consumer that has joined"):
            asked.commit_heads(group, {(topic, 0): 5})
    finally:
        consumer.close()
    assert shown(admin, group) == {(topic, 0): 3}


def test_the_head_of_a_topic_that_is_gone_does_not_keep_the_others_from_being_shown(broker, admin, topic, group):
    asked = Broker(source(broker.bootstrap, topic))
    with pytest.raises(FatalError, match="topic gone_before does not exist"):
        asked.commit_heads(group, {("gone_before", 0): 5, (topic, 0): 5})
    assert shown(admin, group) == {(topic, 0): 5}
