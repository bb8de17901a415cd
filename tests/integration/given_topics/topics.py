"""Topics on a real broker: create, fill and query them; records a minute apart, and windows of them."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from records import produce as produced
from records import record
from tideline.declaration import Source
from tideline.domain.requests import Window
from tideline.kafka.broker import Broker as KafkaBroker
from tideline_stack.broker import LocalBroker


def source(servers: str, *topics: str, **rest: Any) -> Source:
    raw = {"bootstrap_servers": servers, "topics": list(topics), "value": {"format": "bytes"}, **rest}
    return Source.model_validate(raw, context="impressions")


def created(admin: AdminClient, name: str, partitions: int = 1, **config: str) -> str:
    admin.create_topics([NewTopic(name, num_partitions=partitions, config=config)])[name].result()
    until(lambda: exists(admin, name))
    return name


def given(
    admin: AdminClient,
    broker: LocalBroker,
    *,
    partitions: int = 1,
    records: int = 0,
    others: Mapping[int, bytes | None] | None = None,
    minutes: Sequence[int] = (),
) -> str:
    """Create a topic with `records` good JSON records, round robin, or with one record a minute; return its name.

    Args:
        records: Their number; `records.record` makes each of its own number.
        others: Values by number, in place of the good records.
        minutes: For each partition the number of records, a minute apart: see `topic_of`.
    """
    if minutes:
        return topic_of(admin, broker, *minutes)
    name = created(admin, f"events_{uuid4().hex[:8]}", partitions)
    values = [(others or {}).get(number, record(number)) for number in range(records)]
    produced(broker.bootstrap, name, values, partitions=partitions)
    return name


def exists(admin: AdminClient, name: str) -> bool:
    """Return whether every partition answers: for a moment after its creation a topic has no leaders."""
    try:
        described = admin.describe_topics(TopicCollection([name]))[name].result()
        asked = {TopicPartition(name, p.id): OffsetSpec.earliest() for p in described.partitions}
        return all(future.result() for future in admin.list_offsets(asked).values())
    except KafkaException:
        return False


def nothing_open(admin: AdminClient, topic: str) -> bool:
    """Return whether the topic has records, and none of them is part of an open transaction."""

    def end(level: IsolationLevel) -> list[int]:
        partitions = admin.describe_topics(TopicCollection([topic]))[topic].result().partitions
        asked = {TopicPartition(topic, p.id): OffsetSpec.latest() for p in partitions}
        return [future.result().offset for future in admin.list_offsets(asked, isolation_level=level).values()]

    stable = end(IsolationLevel.READ_COMMITTED)
    return sum(stable) > 0 and stable == end(IsolationLevel.READ_UNCOMMITTED)


def until(condition: Callable[[], object], *, seconds: float = 180) -> None:
    deadline, pause = time.monotonic() + seconds, 0.02
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not come true within {seconds} s"
        time.sleep(pause)
        pause = min(
            0.25, 1.5 * pause
        )  # most conditions ask a broker, which takes processor time from what is waited for


def produce(broker: LocalBroker, topic: str, count: int = 1, partition: int = 0, **record: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(count):
        producer.produce(topic, b"x", partition=partition, **record)
    assert producer.flush(20) == 0


def transaction(
    broker: LocalBroker, topic: str, partitions: Iterable[int], count: int = 1, *, timestamp: int = 0
) -> Producer:
    """Return a producer with `count` records in each of `partitions` in a transaction that is still open."""
    # Brokers abort it after this time, by default after a minute: a test on a busy machine may take longer.
    settings = {"transactional.id": uuid4().hex, "transaction.timeout.ms": 900_000}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    producer.init_transactions(20)
    producer.begin_transaction()
    for partition in partitions:
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition, timestamp=timestamp)
    assert producer.flush(20) == 0
    return producer


def grown(admin: AdminClient, topic: str, partitions: int) -> None:
    """Add partitions to an existing topic, and wait until all of them answer."""
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()

    def described() -> int:
        return len(admin.describe_topics(TopicCollection([topic]))[topic].result().partitions)

    until(lambda: described() == partitions and exists(admin, topic))


def recreate(admin: AdminClient, topic: str) -> None:
    admin.delete_topics([topic])[topic].result()
    until(lambda: not exists(admin, topic))
    created(admin, topic)


def delete_before(admin: AdminClient, topic: str, offset: int, partition: int = 0) -> None:
    """Delete records as retention does."""
    admin.delete_records([TopicPartition(topic, partition, offset)])[TopicPartition(topic, partition)].result()


def ends(asked: KafkaBroker, *, topic: int = 0) -> list[int]:
    return [partition.end for partition in asked.topic_facts()[topic].partitions]


T0 = datetime(2026, 1, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def at(minutes: float) -> datetime:
    return T0 + minutes * MINUTE


def window(start: float, end: float, *, replace: bool = False) -> Window:
    """Return a window from minute `start` until before minute `end`."""
    return Window(start=at(start), end=at(end), replace=replace)


def topic_of(admin: AdminClient, broker: LocalBroker, *counts: int) -> str:
    """Create a topic with so many records in each partition: offset n was written in minute n. It keeps them, although they are old."""
    name = created(admin, f"windows_{uuid4().hex[:8]}", partitions=len(counts), **{"retention.ms": "-1"})
    for partition, count in enumerate(counts):
        stamped(broker, name, range(count), partition=partition)
    return name


def stamped(broker: LocalBroker, topic: str, minutes: Iterable[float], *, partition: int = 0) -> None:
    """Send one record for each of the minutes."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for minute in minutes:
        producer.produce(topic, b"x", partition=partition, timestamp=int(at(minute).timestamp() * 1000))
    assert producer.flush(20) == 0
