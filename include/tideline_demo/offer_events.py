"""Generated events of offers for the demo: impressions and conversions, keyed by offer."""

import json
import random
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tideline.errors import RetryableError

TOPIC = "offer_events"
PARTITIONS = 6
OFFERS = range(1, 61)
"""The offers with events in the last hours."""
STOPPED, BOOSTED = 17, 23
"""The offer that stops converting, and the one that converts three times as often."""
RATE = 0.1
"""Conversions for each impression."""
IMPRESSIONS = 290
"""Of each offer in the hour. Six partitions with ten offers each have fewer than the 20,000 events that one run loads."""
_FILLERS = range(901, 901 + PARTITIONS)
"""One offer for each partition: its events fill up what one run loads, so that older events are skipped, and some of its own."""
_FILLING = 200
_HOUR = timedelta(hours=1)

Event = tuple[datetime, int, str]
"""Time, offer and kind."""


def create_topic(bootstrap: str) -> None:
    """Create the topic unless it exists."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    if TOPIC not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)])[TOPIC].result(30)


def history(counts: Mapping[int, int], *, hour: datetime) -> list[Event]:
    """Return so many conversions of each offer, evenly over the three hours before `hour`."""
    return [
        (hour - 3 * _HOUR * (number + 1) / (count + 1), offer_id, "conversion")
        for offer_id, count in counts.items()
        for number in range(count)
    ]


def an_hour(begin: datetime) -> tuple[list[Event], dict[int, int]]:
    """Return the events of the hour that begins then, and those that end it; and how many conversions each offer has in it."""
    chance = random.Random(7)  # noqa: S311 - the same each time: no demo fails by chance
    seen = {offer_id: sum(chance.random() < RATE for _ in range(IMPRESSIONS)) for offer_id in OFFERS}
    seen |= {STOPPED: 0, BOOSTED: int(3 * RATE * IMPRESSIONS)}
    events = [event for offer_id in OFFERS for event in _evenly(offer_id, IMPRESSIONS, seen[offer_id], begin)]
    events += [event for offer_id in _FILLERS for event in _evenly(offer_id, _FILLING, 20, begin - _HOUR)]
    events += [(begin + _HOUR * 1.25, offer_id, "impression") for offer_id in OFFERS]
    return events, seen


def _evenly(offer_id: int, impressions: int, conversions: int, begin: datetime) -> list[Event]:
    """Return the events of an offer in an hour, mixed evenly: a run that skips the first of them sees the same rate."""
    counts = {"impression": impressions, "conversion": conversions}
    return [
        (begin + _HOUR * (number + 0.5) / count, offer_id, kind)
        for kind, count in counts.items()
        for number in range(count)
    ]


def produce(bootstrap: str, events: Iterable[Event]) -> int:
    """Send events in the order of time, those of an offer to one partition; return how many were sent.

    Raises:
        RetryableError: The broker did not acknowledge all of them within a minute.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True, "log_level": 0})
    count = 0
    for at, offer_id, kind in sorted(events):
        count += 1
        value = {"kind": kind, "offer_id": offer_id, "user_id": f"user-{count % 997}", "happened_at": at.isoformat()}
        if kind == "conversion":
            value["revenue"] = "1.50"
        producer.produce(TOPIC, json.dumps(value), key=str(offer_id), partition=offer_id % PARTITIONS)
        producer.poll(0)
    if waiting := producer.flush(60):
        raise RetryableError(
            f"{waiting} of {count} records were not acknowledged", next_step="look at the broker's log and run again"
        )
    return count
