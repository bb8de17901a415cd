"""Topics on the tests' broker: create, fill, and read them."""

import json
from collections.abc import Iterable
from uuid import uuid4

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic


def create(bootstrap: str, *, partitions: int = 1, name: str | None = None, **config: str) -> str:
    """Create a topic and wait until it can be used; return its name."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    name = name or f"topic_{uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)])[name].result(
        30
    )
    while not ready(admin, name, partitions):
        pass
    return name


def ready(admin: AdminClient, name: str, partitions: int) -> bool:
    """Return whether a topic can be used. It exists before every broker knows it, and is known before its partitions have leaders."""
    try:
        described = admin.describe_topics(TopicCollection([name]))[name].result(180)
    except KafkaException:
        return False
    return len(described.partitions) == partitions and all(p.leader and p.leader.id >= 0 for p in described.partitions)


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | str | None],
    *,
    partitions: int = 1,
    first_partition: int = 0,
    keys: Iterable[bytes] | None = None,
    timestamp_ms: int | None = None,
) -> dict[tuple[int, int], bytes | None]:
    """Send values round robin, from `first_partition` on; return the acknowledged values by (partition, offset)."""
    sent: dict[tuple[int, int], bytes | None] = {}

    def acknowledge(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        sent[message.partition(), message.offset()] = message.value()

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    all_keys = iter(keys) if keys is not None else iter(lambda: None, 0)
    extra = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            key=next(all_keys),
            partition=first_partition + number % partitions,
            on_delivery=acknowledge,
            **extra,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    return sent


def transactional(bootstrap: str, transactional_id: str) -> Producer:
    """Return a producer whose transaction has begun."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def record(number: int) -> str:
    """Return a good record of the tests' JSON pipelines."""
    return json.dumps({"id": number, "name": f"n{number}", "price": number % 1000 / 4})


def consume(bootstrap: str, topic: str, end: int, partition: int = 0) -> set[tuple[int, int]]:
    """Return (partition, offset) of the records that a reader finds below `end`; at `end - 1` there is a record or a marker."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True}
    consumer = Consumer(settings | {"isolation.level": "read_committed", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found = set()
    while (message := consumer.poll(20)) is not None and not message.error() and message.offset() < end:
        found.add((partition, message.offset()))
    consumer.close()
    return found
