"""Generated impressions and clicks for the demo and the tests: six hours of users who come and go.

1 % of the events arrive out of order, minutes after those that followed them, and 5 % too late: hours after their visit.
"""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tideline.errors import RetryableError

TOPIC = "ad_events"
PARTITIONS = 6
HOURS = 6
_HOUR = timedelta(hours=1)
_DISORDERED, _LATE_THERE = 0.01, 0.15
"""The share of events out of order, and of late ones among those of the hours that have any: 5 % of all."""
_CLICKS, _LEAVES = 0.1, 0.2
"""The share of events that are clicks, and of those that are the last of their visit."""
_SECONDS = 60

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One impression or click."""

    user_id: str
    at: datetime
    arrives_at: datetime
    is_click: bool
    revenue: Decimal

    @property
    def is_late(self) -> bool:
        """Return whether it arrives hours after its time, and so after the batch in which it would have been in time."""
        return self.arrives_at - self.at > 2 * _HOUR

    def record(self) -> bytes:
        """Return the value of its record."""
        fields = {
            "kind": "click" if self.is_click else "impression",
            "user_id": self.user_id,
            "offer_id": 7,
            "revenue": str(self.revenue),
            "happened_at": self.at.isoformat(),
        }
        return json.dumps(fields).encode()


def beginning(bootstrap: str) -> datetime:
    """Create the topic unless it exists. Return a time after all events in it, ten seconds for each: they are closer together.

    So nothing is late in a demo that is repeated, or was interrupted.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    base = datetime(2026, 1, 1, tzinfo=UTC)
    if TOPIC not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)])[TOPIC].result(30)
        return base
    places = {TopicPartition(TOPIC, one): OffsetSpec.latest() for one in range(PARTITIONS)}
    ends = [found.result(30).offset for found in admin.list_offsets(places).values()]
    return base + timedelta(seconds=10 * sum(ends))


def generate(start: datetime, users: int, *, seed: int) -> list[Event]:
    """Return the events of six hours by their arrival, about 11 for each user.

    Events of a visit are less than four minutes apart, and visits of a user at least 45 minutes.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable test data
    found = [event for number in range(users) for event in _of_user(f"{start:%d%H%M%S}-{number}", start, chance)]
    return sorted(found, key=lambda event: event.arrives_at)


def _of_user(user_id: str, start: datetime, chance: random.Random) -> Iterator[Event]:
    at, end = start + chance.random() * 4 * _HOUR, start + HOURS * _HOUR
    while at < end:
        is_click = chance.random() < _CLICKS
        yield Event(
            user_id=user_id,
            at=at,
            arrives_at=_arrival(at, start, chance),
            is_click=is_click,
            revenue=Decimal(chance.randrange(50_000, 900_000) if is_click else chance.randrange(50, 2_000)).scaleb(-6),
        )
        leaves = chance.random() < _LEAVES
        at += timedelta(minutes=chance.uniform(45, 240) if leaves else chance.uniform(0, 4))


def _arrival(at: datetime, start: datetime, chance: random.Random) -> datetime:
    """Return when an event arrives. The late ones are of the first three hours, and arrive in the last three."""
    drawn = chance.random()
    if 0.5 * _HOUR < at - start < 2.75 * _HOUR and drawn < _LATE_THERE:
        return at + chance.uniform(2.5, 3) * _HOUR
    return at + timedelta(minutes=chance.uniform(1, 8)) if drawn > 1 - _DISORDERED else at


def produce(bootstrap: str, events: Iterable[Event]) -> dict[Place, Event]:
    """Send events in their order, keyed by user; return them by the place that the broker has acknowledged.

    Raises:
        RetryableError: The broker did not acknowledge all of them within a minute.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True, "log_level": 0})
    sent: dict[Place, Event] = {}
    count = 0
    for event in events:

        def acknowledged(error: KafkaError | None, message: Message, event: Event = event) -> None:
            if error is None:
                sent[message.partition() or 0, message.offset() or 0] = event

        producer.produce(TOPIC, event.record(), key=event.user_id, on_delivery=acknowledged)
        producer.poll(0)
        count += 1
    producer.flush(_SECONDS)
    if missing := count - len(sent):
        raise RetryableError(
            f"{missing} of {count} records were not acknowledged", next_step="look at the broker's log and run again"
        )
    return sent
