"""Topics on a real broker: create, fill and query them."""

import time
from uuid import uuid4

from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic, OffsetSpec

from tideline.declaration import Source


def source(servers, *topics, **rest):
    raw = {"bootstrap_servers": servers, "topics": list(topics), "value": {"format": "bytes"}, **rest}
    return Source.model_validate(raw, context="impressions")


def created(admin, name, partitions=1, **config):
    admin.create_topics([NewTopic(name, num_partitions=partitions, config=config)])[name].result()
    until(lambda: exists(admin, name))
    return name


def exists(admin, name):
    """Return whether every partition answers: for a moment after its creation a topic has no leaders."""
    try:
        described = admin.describe_topics(TopicCollection([name]))[name].result()
        asked = {TopicPartition(name, p.id): OffsetSpec.earliest() for p in described.partitions}
        return all(future.result() for future in admin.list_offsets(asked).values())
    except KafkaException:
        return False


def until(condition, *, seconds=180):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not come true within {seconds} s"
        time.sleep(0.02)


def produce(broker, topic, count=1, partition=0, **record):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(count):
        producer.produce(topic, b"x", partition=partition, **record)
    assert producer.flush(20) == 0


def transaction(broker, topic, partitions, count=1):
    """Return a producer with `count` records in each of `partitions` in a transaction that is still open."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": uuid4().hex})
    producer.init_transactions(20)
    producer.begin_transaction()
    for partition in partitions:
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
    assert producer.flush(20) == 0
    return producer


def grown(admin, topic, partitions):
    """Add partitions to an existing topic, and wait until all of them answer."""
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()

    def described():
        return admin.describe_topics(TopicCollection([topic]))[topic].result().partitions

    until(lambda: len(described()) == partitions and exists(admin, topic))


def recreate(admin, topic):
    admin.delete_topics([topic])[topic].result()
    until(lambda: not exists(admin, topic))
    created(admin, topic)


def ends(asked, *, topic=0):
    return [partition.end for partition in asked.topic_facts()[topic].partitions]
