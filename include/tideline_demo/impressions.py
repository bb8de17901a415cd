"""Generated ad impressions for the demo and the tests. What the broker acknowledged is recorded, so it can be compared with what was loaded.

As a program, with the arguments BROKERS COUNT, it sends some where only the package is installed, as in a container.
"""

import json
import random
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tideline.errors import RetryableError

TOPIC = "ad_impressions"
PARTITIONS = 18
OFFERS = range(1, 411)
MALFORMED_EVERY = 500
"""One record in this many is malformed on purpose."""
_BROKEN = (b'{"impression_id": "cut of', b"\xff\xfe not text", b"", b'{"offer_id": "seven"}', b"[1, 2, 3]")

_CHUNK = 1_000
"""So many impressions are encoded at once."""

Place = tuple[int, int]
"""Partition and offset."""
Impression = Mapping[str, object]
"""What is known of an ad that was shown."""
Encode = Callable[[Sequence[Impression]], Sequence[bytes]]
"""Returns the values of records."""


@dataclass(frozen=True, slots=True)
class SentImpressions:
    """The records that the broker has acknowledged, grouped by their expected outcome."""

    written: dict[Place, str] = field(default_factory=dict)
    """By place, the id of the impression."""
    rejected: set[Place] = field(default_factory=set)
    filtered: set[Place] = field(default_factory=set)

    def add(self, more: "SentImpressions") -> None:
        """Add records that were sent later."""
        self.written.update(more.written)
        self.rejected.update(more.rejected)
        self.filtered.update(more.filtered)

    def compare(self, output: set[Place], rejects: set[Place]) -> list[str]:
        """Compare what was loaded with what was sent; return one line for each kind of difference, and none when they agree."""
        found = [
            (len(self.written.keys() - output), "good records are not in the output"),
            (len(self.rejected - rejects), "malformed records are not among the rejects"),
            (len((self.rejected | self.filtered) & output), "records are in the output that should not be"),
            (len((self.written.keys() | self.filtered) & rejects), "good records are among the rejects"),
        ]
        return [f"{count:,} {what}" for count, what in found if count]


def create_topic(bootstrap: str, topic: str = TOPIC, *, partitions: int = PARTITIONS) -> None:
    """Create a topic of impressions unless it exists."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    if topic not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])[topic].result(30)


def as_json(rows: Sequence[Impression]) -> list[bytes]:
    """Return each impression as a JSON object."""
    return [json.dumps(row).encode() for row in rows]


def example() -> Impression:
    """Return one impression."""
    [(_, _, _, _, row)] = _impressions([datetime.now(UTC)], 1, MALFORMED_EVERY, OFFERS)
    return row or {}


def produce(
    bootstrap: str,
    count: int,
    *,
    seed: int,
    malformed_every: int = MALFORMED_EVERY,
    since: datetime | None = None,
    offers: Sequence[int] = OFFERS,
    topic: str = TOPIC,
    encode: Encode = as_json,
    broken: Sequence[bytes] = _BROKEN,
) -> SentImpressions:
    """Send `count` impressions to a topic, keyed by user, with timestamps evenly spread from `since` to now; return what was acknowledged.

    Args:
        bootstrap: Addresses of brokers.
        count: Number of records.
        seed: Decides what is in them.
        malformed_every: One record in this many is malformed.
        since: Time of the first record; now by default.
        offers: The offers to draw from; one that is there twice is drawn twice as often.
        topic: The topic. It is created if there is none.
        encode: Makes values of impressions.
        broken: What malformed records hold, in turns.

    Raises:
        RetryableError: The broker did not acknowledge all of them within two minutes.
    """
    create_topic(bootstrap, topic)
    producer = _producer(bootstrap)
    sent = SentImpressions()
    now = datetime.now(UTC)
    moments = (now - (now - (since or now)) * (count - number) / count for number in range(1, count + 1))
    impressions = _impressions(moments, seed, malformed_every, offers)
    for number, (moment, user_id, impression_id, kind, value) in enumerate(_records(impressions, encode, broken)):

        def acknowledged(
            error: KafkaError | None, message: Message, impression_id: str = impression_id, kind: str = kind
        ) -> None:
            if error is None:
                place = (message.partition() or 0, message.offset() or 0)
                if kind == "written":
                    sent.written[place] = impression_id
                else:
                    (sent.rejected if kind == "rejected" else sent.filtered).add(place)

        timestamp = int(moment.timestamp() * 1000)
        producer.produce(topic, value, key=user_id, timestamp=timestamp, on_delivery=acknowledged)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(120)
    missing = count - len(sent.written) - len(sent.rejected) - len(sent.filtered)
    if missing:
        raise RetryableError(
            f"{missing} of {count} records were not acknowledged", next_step="look at the broker's log and run again"
        )
    return sent


def _producer(bootstrap: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 500_000,
            # The client would print its own lines into the progress of the demo. `produce` counts the records that could not be sent.
            "log_level": 0,
        }
    )


def _records(
    impressions: Iterable[tuple[datetime, str, str, str, Impression | None]], encode: Encode, broken: Sequence[bytes]
) -> Iterator[tuple[datetime, str, str, str, bytes]]:
    """Yield each impression with the record's value instead of what is known of it."""
    n_broken, given = 0, iter(impressions)
    while chunk := list(islice(given, _CHUNK)):
        values = iter(encode([row for *_, row in chunk if row is not None]))
        for moment, user_id, impression_id, kind, row in chunk:
            if row is None:
                yield moment, user_id, impression_id, kind, broken[n_broken % len(broken)]
                n_broken += 1
            else:
                yield moment, user_id, impression_id, kind, next(values)


def _impressions(
    moments: Iterable[datetime], seed: int, malformed_every: int, offers: Sequence[int]
) -> Iterator[tuple[datetime, str, str, str, Impression | None]]:
    """Yield for each moment: the moment, the user id, the impression id, the expected outcome, and the impression; None is a malformed one."""
    chance = random.Random(seed)  # noqa: S311 - repeatable test data
    for number, moment in enumerate(moments):
        user_id = f"user-{chance.randrange(50_000)}"
        impression_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        if number % malformed_every == malformed_every - 1:
            yield moment, user_id, impression_id, "rejected", None
            continue
        device = chance.choice(
            ["phone", "phone", "desktop", "tablet", "robot"] if number % 10 == 0 else ["phone", "desktop"]
        )
        value = {
            "impression_id": impression_id,
            "offer_id": chance.choice(offers),
            "user_id": user_id,
            "placement": f"site-{chance.randrange(300)}/slot-{chance.randrange(8)}",
            "country": chance.choice(["DE", "FR", "GB", "JP", "BR", "US"]),
            "device": device,
            "price_micros": chance.randrange(50, 20_000),
            "shown_at": (moment - timedelta(milliseconds=chance.randrange(3_600_000))).isoformat(
                timespec="milliseconds"
            ),
            "user_agent": "Mozilla/5.0 (no column of this name is declared, so it is ignored)",
        }
        kind = "filtered" if device == "robot" else "written"
        yield moment, user_id, impression_id, kind, value


if __name__ == "__main__":
    produce(sys.argv[1], int(sys.argv[2]), seed=1)
    print(f"Sent {int(sys.argv[2]):,} impressions to the topic {TOPIC}.")
