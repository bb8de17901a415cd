"""Records a minute apart, and windows of them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tideline.domain.requests import Window
from tideline.local.broker import Broker
from topics import created

T0 = datetime(2026, 1, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def at(minutes: float) -> datetime:
    return T0 + minutes * MINUTE


def window(start: float, end: float, *, replace: bool = False) -> Window:
    """Return a window from minute `start` until before minute `end`."""
    return Window(start=at(start), end=at(end), replace=replace)


def topic_of(admin: AdminClient, broker: Broker, *counts: int) -> str:
    """Create a topic with so many records in each partition: offset n was written in minute n. It keeps them, although they are old."""
    name = created(admin, f"windows_{uuid4().hex[:8]}", partitions=len(counts), **{"retention.ms": "-1"})
    for partition, count in enumerate(counts):
        stamped(broker, name, range(count), partition=partition)
    return name


def stamped(broker: Broker, topic: str, minutes: Iterable[float], *, partition: int = 0) -> None:
    """Send one record for each of the minutes."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for minute in minutes:
        producer.produce(topic, b"x", partition=partition, timestamp=int(at(minute).timestamp() * 1000))
    assert producer.flush(20) == 0
