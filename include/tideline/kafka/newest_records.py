"""Reads the newest records of topics with their content, for people who write a pipeline: `tideline new` and `tideline sample`.

One consumer reads all partitions. It joins no group and commits nothing. It may return fewer records than there are:
a sample decides nothing.
"""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tideline.declaration import Source
from tideline.domain.facts import NewestRecords, Place, RecordContent, TopicFacts
from tideline.kafka.broker import Broker
from tideline.kafka.records import LOOKING, Got, explained, got, place_of, unanswered
from tideline.kafka.settings import client_settings

SECONDS = 30
"""The most time to look for records."""
_READING = {
    **LOOKING,
    # Retention may delete the first of the records meanwhile. The later ones are as good a sample.
    "auto.offset.reset": "earliest",
}
_POLL_S = 0.1
_AT_ONCE = 500
"""Records that the client hands over in one call."""
_MAX_BYTES = 64 << 20
"""The most bytes of keys and values to hold. Brokers allow records of any size."""


@dataclass(slots=True)
class _Search:
    """The search for the newest records of one partition, from its end backwards, in windows that double."""

    log_start: int
    log_end: int
    begin: int
    """The first offset of the current window."""
    end: int
    """The end of the current window. Offsets from here on were read before."""
    found: deque[RecordContent]
    """The newest records of the current window."""
    newer: list[RecordContent] = field(default_factory=list)
    """The records that were found behind the current window."""
    n_found: int = 0

    @property
    def records(self) -> list[RecordContent]:
        """Return all records that were found, in order."""
        return [*self.found, *self.newer]

    @property
    def has_gaps(self) -> bool:
        """Return whether there are offsets without a record behind the first record that was found."""
        records = self.records
        return bool(records) and self.n_found < self.log_end - records[0].offset

    def widen(self) -> bool:
        """Go on with the offsets before the current window, twice as many; return False if there are none."""
        if self.begin <= self.log_start:
            return False
        self.newer = self.records
        self.found.clear()
        self.end, self.begin = self.begin, max(self.log_start, self.begin - 2 * (self.end - self.begin))
        return True

    def add(self, record: RecordContent) -> int:
        """Add the next record of the window; return by how many bytes the search holds more than before."""
        dropped = self.found[0] if len(self.found) == self.found.maxlen else None
        self.found.append(record)
        self.n_found += dropped is None
        return _size(record) - (_size(dropped) if dropped else 0)


def newest_of(source: Source, count: int, *, seconds: float = SECONDS) -> NewestRecords:
    """Return about the newest `count` committed records of a source's topics, as its pipeline reads them, oldest first.

    Raises:
        FatalError: A topic does not exist, or the brokers refuse.
        RetryableError: The brokers did not answer.
    """
    broker = Broker(source)
    topics = broker.topic_facts()
    for error in broker.missing(topics).values():
        raise error
    return newest_records(client_settings(source.brokers), topics, count, seconds=seconds)


def newest_records(
    settings: Mapping[str, Any], topics: Iterable[TopicFacts], count: int, *, seconds: float
) -> NewestRecords:
    """Return about the newest `count` records, an equal number of each partition where there are enough.

    Markers of transactions, aborted records and records that compaction has removed also take offsets. So the search
    goes back until it has enough records, is at the log start, or the time is up.

    Args:
        settings: The client's settings, with the brokers' addresses and the isolation level.
        topics: The topics with the bounds of their partitions.
        count: The most records to return.
        seconds: The most time to search for.

    Raises:
        RetryableError: The brokers refused, or returned no record in time.
        FatalError: The user may not read a topic.
    """
    searches = _searches(topics, count)
    deadline = time.monotonic() + seconds
    active = dict(searches)
    late: set[Place] = set()
    consumer = Consumer({**settings, **_READING})
    try:
        while active and not late and not _enough(searches.values(), count):
            late = _look(consumer, active, deadline)
            active = {place: search for place, search in active.items() if place in late or search.widen()}
    except KafkaException as error:
        raise explained(set(active), error.args[0]) from error
    finally:
        consumer.close()
    held = sorted((record for search in searches.values() for record in search.records), key=_age)
    if late and not held:
        raise unanswered(late, f"no answer within {seconds:g} s")
    gappy = {
        topic for (topic, partition), search in searches.items() if (topic, partition) not in late and search.has_gaps
    }
    return NewestRecords(records=held[-count:], gappy=frozenset(gappy))


def _searches(topics: Iterable[TopicFacts], count: int) -> dict[Place, _Search]:
    """Return a search for each partition that has offsets; the first window is the partition's share of the records."""
    bounds = [(topic.topic, facts) for topic in topics for facts in topic.partitions if facts.end > facts.log_start]
    share = -(-count // max(1, len(bounds)))
    return {
        (topic, facts.partition): _Search(
            log_start=facts.log_start,
            log_end=facts.end,
            begin=max(facts.log_start, facts.end - share),
            end=facts.end,
            found=deque(maxlen=count),
        )
        for topic, facts in bounds
    }


def _enough(searches: Iterable[_Search], count: int) -> bool:
    held = [record for search in searches for record in search.records]
    return len(held) >= count or sum(map(_size, held)) >= _MAX_BYTES


def _look(consumer: Consumer, searches: Mapping[Place, _Search], deadline: float) -> set[Place]:
    """Read the windows of these searches; return the partitions whose window was not read to its end."""
    waiting = set(searches)
    size = 0
    consumer.incremental_assign([TopicPartition(*place, search.begin) for place, search in searches.items()])
    while waiting and size < _MAX_BYTES and time.monotonic() < deadline:
        read = set()
        for message in consumer.consume(_AT_ONCE, timeout=_POLL_S):
            kind, place = got(message), place_of(message)
            if kind is Got.NOTHING or place not in waiting or place in read:
                continue
            search = searches[place]
            offset = int(message.offset() or 0)
            if kind is Got.RECORD and offset < search.end:
                size += search.add(_record(message))
            if kind is Got.END or offset >= search.end - 1:
                read.add(place)
        waiting -= read
        # In one call: each call waits for the consumer's thread, and there may be hundreds of partitions.
        consumer.incremental_unassign([TopicPartition(*place) for place in read])
    return waiting


def _record(message: Message) -> RecordContent:
    topic, partition = place_of(message)
    timestamp = message.timestamp()[1]
    return RecordContent(
        topic=topic,
        partition=partition,
        offset=int(message.offset() or 0),
        timestamp_ms=timestamp if timestamp >= 0 else None,
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=tuple((name, _bytes(value)) for name, value in message.headers() or ()),
    )


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


def _size(record: RecordContent) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _age(record: RecordContent) -> tuple[int, str, int, int]:
    return record.timestamp_ms or 0, record.topic, record.partition, record.offset
