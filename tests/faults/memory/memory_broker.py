"""Brokers in memory: the methods of `tideline.kafka.broker.Broker`, over logs that tests can truncate, delete and create again."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from given_topics.topics import MINUTE, T0
from tideline.declaration import Source
from tideline.domain.facts import FoundOffset, PartitionFacts, Place, RecordFacts, TopicFacts
from tideline.errors import FatalError
from tideline.kafka.broker import Broker
from tideline.kafka.passing import PassingError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Log:
    """One partition. By default offset n was written in minute n."""

    def __init__(self, end: int = 0) -> None:
        self.start = 0
        self.timestamps: list[int] = []
        """Milliseconds, by offset."""
        self.gaps: set[int] = set()
        """Offsets without a readable record: transaction markers, and aborted records."""
        self.markers: set[int] = set()
        """Those of them that are markers, which no reader gets."""
        self.open: list[int] = []
        """First offsets of open transactions."""
        self.epochs: list[int] = []
        """By offset, the leader epoch of its record."""
        self.leader_epoch = 0
        self.append(end)

    @property
    def end(self) -> int:
        """The next offset to be written."""
        return len(self.timestamps)

    @property
    def stable_end(self) -> int:
        """The last stable offset: nothing behind the start of an open transaction may be read."""
        return min(self.open, default=self.end)

    def append(self, count: int = 1, *, at: datetime | None = None) -> None:
        """Append records."""
        for _ in range(count):
            when = T0 + self.end * MINUTE if at is None else at
            self.timestamps.append((when - _EPOCH) // _MILLISECOND)
            self.epochs.append(self.leader_epoch)

    def append_gap(self, *, at: datetime | None = None) -> None:
        """Append the marker of a transaction, which takes an offset."""
        self.gaps.add(self.end)
        self.markers.add(self.end)
        self.append(at=at)

    def delete_before(self, offset: int) -> None:
        """Delete records by retention, at most up to the end."""
        self.start = max(self.start, min(offset, self.end))

    def cut(self, end: int) -> None:
        """Truncate the log at `end`, or at its start if that is higher, as an unclean election or a restore does. There is a new leader."""
        del self.timestamps[max(end, self.start) :]
        del self.epochs[max(end, self.start) :]
        self.elect()
        self.gaps = {offset for offset in self.gaps if offset < self.end}
        self.markers = {offset for offset in self.markers if offset < self.end}
        self.open = [offset for offset in self.open if offset < self.end]

    def elect(self) -> None:
        """Elect another leader."""
        self.leader_epoch += 1

    def offset_at(self, milliseconds: int, end: int) -> FoundOffset:
        """Find the first offset before `end` with at least that timestamp, or `end`."""
        for offset in range(self.start, end):
            if self.timestamps[offset] >= milliseconds:
                return FoundOffset(offset=offset, timestamp=self.timestamps[offset])
        return FoundOffset(offset=end)

    def records_from(self, offset: int, count: int, *, committed: bool = True) -> list[RecordFacts]:
        """Return the first readable records from an offset on; without `committed`, those of open and of aborted transactions too."""
        every = (n for n in range(max(offset, self.start), self.end) if n not in self.markers)
        found = islice(self.visible(offset, self.stable_end) if committed else every, count)
        return [RecordFacts(offset=n, timestamp=self.timestamps[n], leader_epoch=self.epochs[n]) for n in found]

    def visible(self, start: int, end: int) -> Iterator[int]:
        """Yield the offsets of [start, end) that have a readable record."""
        return (
            offset for offset in range(max(start, self.start), min(end, self.stable_end)) if offset not in self.gaps
        )


@dataclass(slots=True, kw_only=True)
class Topic:
    """One incarnation of a topic."""

    name: str
    topic_id: UUID
    logs: list[Log]
    compacted: bool = False
    retention_ms: int | None = None

    @property
    def ends(self) -> list[int]:
        """Last stable offset of each partition."""
        return [log.stable_end for log in self.logs]


@dataclass(slots=True)
class Transaction:
    """An open transaction: first offset and number of its records, by partition. They and all records behind them are not readable yet."""

    topic: Topic
    written: dict[int, tuple[int, int]]

    def commit(self, *, at: datetime | None = None) -> None:
        """Commit: the records become readable."""
        for partition, (first, _) in self.written.items():
            self.topic.logs[partition].open.remove(first)
            self.topic.logs[partition].append_gap(at=at)

    def abort(self, *, at: datetime | None = None) -> None:
        """Abort: the records never become readable."""
        for partition, (first, count) in self.written.items():
            self.topic.logs[partition].gaps.update(range(first, first + count))
        self.commit(at=at)


def transaction(topic: Topic, partitions: Iterable[int], count: int = 1, *, at: datetime | None = None) -> Transaction:
    """Append `count` records to each of `partitions`, in a transaction that is still open."""
    written = {}
    for partition in partitions:
        log = topic.logs[partition]
        written[partition] = (log.end, count)
        log.open.append(log.end)
        log.append(count, at=at)
    return Transaction(topic, written)


@dataclass(slots=True)
class Cluster:
    """The topics of the brokers.

    Args:
        on_step: Called with the `MemoryBroker` and the name of a request before the answer. An exception that it raises is raised by the request.
    """

    on_step: Callable[[Any, str], object] | None = None
    cluster_id: str = "c"
    topics: dict[str, Topic] = field(default_factory=dict)
    heads: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    """By consumer group, the offsets that were committed to it."""
    incarnations: int = 0
    """How many topics were ever created: the id of the next one is the following number."""

    def create(
        self,
        name: str,
        *ends: int,
        topic_id: UUID | None = None,
        compacted: bool = False,
        retention_ms: int | None = None,
    ) -> Topic:
        """Create a topic with this many records in each partition, under a new id. It replaces a topic of the same name."""
        self.incarnations += 1
        self.topics[name] = Topic(
            name=name,
            topic_id=topic_id or UUID(int=self.incarnations),
            logs=[Log(end) for end in ends],
            compacted=compacted,
            retention_ms=retention_ms,
        )
        return self.topics[name]

    def delete(self, name: str) -> None:
        """Delete the topic."""
        del self.topics[name]


class MemoryBroker(Broker):
    """The brokers as one source sees them.

    Args:
        cluster: The topics.
        source: The source, which selects topics.
    """

    def __init__(self, cluster: Cluster, source: Source) -> None:
        self._cluster = cluster
        self._source = source

    def _asked(self, question: str) -> None:
        self.check_time()
        if self._cluster.on_step is not None:
            self._cluster.on_step(self, question)

    def cluster_id(self) -> str:
        self._asked("cluster_id")
        return self._cluster.cluster_id

    def topic_facts(self) -> list[TopicFacts]:
        self._asked("topic_facts")
        declared = self._source.topics
        names = sorted(filter(self._source.names, self._cluster.topics)) if declared is None else declared
        found = (self._cluster.topics[name] for name in names if name in self._cluster.topics)
        return [
            TopicFacts(
                cluster_id=self._cluster.cluster_id,
                topic=topic.name,
                topic_id=topic.topic_id,
                compacted=topic.compacted,
                retention_ms=topic.retention_ms,
                partitions=tuple(
                    PartitionFacts(
                        partition=number,
                        log_start=log.start,
                        end=log.stable_end,
                        n_unstable=log.end - log.stable_end,
                        leader_epoch=log.leader_epoch,
                    )
                    for number, log in enumerate(topic.logs)
                ),
            )
            for topic in found
        ]

    def missing(self, found: Iterable[TopicFacts], known: Iterable[str] = ()) -> dict[str, FatalError]:
        self._asked("missing")
        there = {topic.topic for topic in found}
        declared = [*(self._source.topics or ()), *filter(self._source.names, known)]
        names = [name for name in dict.fromkeys(declared) if name not in there]
        return {name: _missing(name) for name in names if name not in self._cluster.topics}

    def offsets_at(self, times: Mapping[Place, datetime], *, committed: bool = True) -> dict[Place, FoundOffset]:
        self._asked("offsets_at")
        found = {}
        for (topic, number), when in times.items():
            if topic not in self._cluster.topics:
                raise _missing(topic)
            logs = self._cluster.topics[topic].logs
            if number >= len(logs):  # the topic was created again, with fewer partitions
                raise _unknown(topic)
            log = logs[number]
            stamp = -((_EPOCH - when) // _MILLISECOND)
            found[topic, number] = log.offset_at(stamp, log.stable_end if committed else log.end)
        return found

    def records_from(
        self, starts: Mapping[Place, int], count: int, *, committed: bool = True
    ) -> dict[Place, list[RecordFacts]]:
        self._asked("records_from")
        found = {}
        for (topic, number), offset in starts.items():
            logs = self._cluster.topics[topic].logs if topic in self._cluster.topics else []
            if number >= len(logs):
                raise _unknown(topic)
            log = logs[number]
            if not log.start <= offset <= (log.stable_end if committed else log.end):
                raise _unknown(topic)
            found[topic, number] = log.records_from(offset, count, committed=committed)
        return found

    def commit_heads(self, group: str, heads: Mapping[tuple[str, int], int]) -> None:
        self._asked("commit_heads")
        topics = self._cluster.topics
        there = {
            place: head for place, head in heads.items() if place[0] in topics and place[1] < len(topics[place[0]].logs)
        }
        self._cluster.heads.setdefault(group, {}).update(there)
        for topic, _ in sorted(heads.keys() - there.keys()):
            raise _unknown(topic) if topic in topics else _missing(topic)


def _unknown(topic: str) -> PassingError:
    return PassingError(f"topic {topic}: unknown partition", next_step="wait until the brokers know it")


def _missing(topic: str) -> FatalError:
    return FatalError(
        f"topic {topic} does not exist",
        next_step="correct source.topics in the declaration, or create the topic",
        entry="topic-missing",
    )
