"""Generated changes of offers for the demo and the tests: a compacted topic, keyed by offer, with tombstones."""

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tideline.errors import RetryableError

TOPIC = "offer_changes"
PARTITIONS = 6
OFFERS = 3_000
_DELETED_EVERY = 20
"""One change in this many is a tombstone."""

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class SentOffers:
    """The changes that the broker has acknowledged."""

    newest: dict[int, tuple[Place, int | None]] = field(default_factory=dict)
    """By offer: the place of its newest change, and its bid; None for a tombstone."""

    @property
    def deleted(self) -> set[int]:
        """Return the offers whose newest change is a tombstone."""
        return {offer_id for offer_id, (_, bid) in self.newest.items() if bid is None}

    def compare(self, cache: dict[int, tuple[Place, int]]) -> list[str]:
        """Compare the table with what was sent; return one line for each kind of difference, and none when they agree."""
        kept = {offer_id: found for offer_id, found in self.newest.items() if found[1] is not None}
        found = [
            (len(kept.keys() - cache.keys()), "offers are missing"),
            (len(self.deleted & cache.keys()), "deleted offers are there"),
            (sum(cache[one] != kept[one] for one in kept.keys() & cache.keys()), "offers are not the newest ones"),
        ]
        return [f"{count:,} {what}" for count, what in found if count]


def create_topic(bootstrap: str) -> None:
    """Create the topic, compacted, unless it exists."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    if TOPIC not in admin.list_topics(timeout=30).topics:
        topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1, config={"cleanup.policy": "compact"})
        admin.create_topics([topic])[TOPIC].result(30)


def produce(bootstrap: str, count: int, *, seed: int) -> SentOffers:
    """Send `count` changes of offers; return what was acknowledged.

    Raises:
        RetryableError: The broker did not acknowledge all of them within a minute.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable test data
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True, "log_level": 0})
    sent = SentOffers()
    for _ in range(count):
        offer_id = chance.randrange(1, OFFERS + 1)
        bid = None if chance.randrange(_DELETED_EVERY) == 0 else chance.randrange(1_000, 5_000_000)

        def acknowledged(
            error: KafkaError | None, message: Message, offer_id: int = offer_id, bid: int | None = bid
        ) -> None:
            place = (message.partition() or 0, message.offset() or 0)
            if error is None and (offer_id not in sent.newest or place > sent.newest[offer_id][0]):
                sent.newest[offer_id] = (place, bid)

        key = json.dumps({"offer_id": offer_id}).encode()
        producer.produce(TOPIC, _value(chance, offer_id, bid), key=key, on_delivery=acknowledged)
        producer.poll(0)
    if waiting := producer.flush(60):
        raise RetryableError(
            f"{waiting} of {count} records were not acknowledged", next_step="look at the broker's log and run again"
        )
    return sent


def _value(chance: random.Random, offer_id: int, bid: int | None) -> bytes | None:
    if bid is None:
        return None
    value = {
        "advertiser": f"advertiser {offer_id % 40}",
        "category": chance.choice(["travel", "games", "food", "finance", "fashion"]),
        "bid_micros": bid,
        "changed_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    return json.dumps(value).encode()
