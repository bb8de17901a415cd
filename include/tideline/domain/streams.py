"""Compare what the ledger knows of a stream with what the broker says now. Pure functions, which find problems and change nothing."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.domain.offsets import OffsetRange, subtract


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One partition of one topic incarnation, as the ledger knows it."""

    stream_id: int
    cluster_id: str
    topic: str
    topic_id: UUID
    partition: int
    start_offset: int
    """Where the pipeline began to read it. Offsets before it are planned only by backfills."""
    next_offset: int
    """The head: every offset from the start to here is accounted for."""
    reserved: tuple[OffsetRange, ...]
    """Ranges at or after the head that batches have reserved or operators have skipped. A plan must leave them alone."""
    stopped_because: str | None
    accepted_end: int | None = None
    """The log end when an operator accepted that the log was truncated. The log may end this low until it has passed its frontier again."""
    leader_epoch: int | None = None
    """The leader epoch at the last check, when the log reached at least to `known_end`. None if no broker has reported one yet."""
    retired: bool = False
    """Its topic or partition is gone, and an operator has confirmed it."""

    @property
    def label(self) -> str:
        """Return `topic/partition`, as messages write it."""
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of comparing a pipeline's streams with its topics. Each stream is in at most one list."""

    ready: tuple[tuple[Stream, TopicFacts, PartitionFacts], ...]
    """Streams that may be planned, with the facts of their topics and partitions."""
    inconsistent: tuple[tuple[Stream, str], ...]
    """Active streams that must stop, and retired streams whose topic is back; each with its problem."""
    stopped: tuple[Stream, ...]
    """Streams that were stopped before."""
    unseen: tuple[tuple[TopicFacts, PartitionFacts], ...]
    """Partitions that the ledger does not know: new streams begin for them."""


_GROWN = "partitions were added to the topic"
ADDED = f"{_GROWN}, and this is one of them: keys may have moved to it"
"""The problem of a partition that a known topic has gained, for a pipeline whose meaning depends on which partition a key is in."""
DIVIDED_ANEW = f"{_GROWN}, and their number is no multiple of the former one: keys may have moved to this one"
"""The problem of a partition that was there before. Where the number is a multiple, keys move to new partitions only."""
RETURNED = "the topic that was retired is back"
"""The problem of a retired stream whose topic incarnation exists again under the declared name, as after a restore of the brokers."""


def compare(
    streams: Iterable[Stream],
    topics: Iterable[TopicFacts],
    gone: Iterable[str] = (),
    replaced: Mapping[int, OffsetRange] | None = None,
) -> Comparison:
    """Sort a pipeline's streams by whether they may continue, and find the partitions that are new.

    A topic that was created again under the same name is not new: its old streams stop, and an operator decides about them. Streams of a topic that
    the declaration no longer names are in none of the lists.

    Args:
        streams: All streams of the pipeline that the ledger knows.
        topics: The declared topics that exist.
        gone: The declared topics that do not exist.
        replaced: By stream id, offsets that hold other records than before, although the log reaches past them.
    """
    by_name: dict[str, TopicFacts | None] = {**dict.fromkeys(gone), **{topic.topic: topic for topic in topics}}
    known = list(streams)
    ready, inconsistent, stopped = [], [], []
    for stream in known:
        if stream.topic not in by_name:
            continue
        topic = by_name[stream.topic]
        if stream.retired:
            if topic is not None and not is_other(stream, topic):
                inconsistent.append((stream, RETURNED))
        elif stream.stopped_because is not None:
            stopped.append(stream)
        elif (problem := _problem(stream, topic)) is not None:
            inconsistent.append((stream, problem))
        elif replaced and (other := replaced.get(stream.stream_id)) is not None:
            inconsistent.append((stream, replaced_problem(other)))
        elif topic is not None:
            ready.append((stream, topic, topic.partition(stream.partition)))
    unseen = tuple((topic, facts) for topic in by_name.values() if topic is not None for facts in _unseen(topic, known))
    return Comparison(ready=tuple(ready), inconsistent=tuple(inconsistent), stopped=tuple(stopped), unseen=unseen)


def is_of_growth(problem: str | None) -> bool:
    """Return whether a stream has stopped because partitions were added to its topic."""
    return problem is not None and problem.startswith(_GROWN)


def identity_problem(topic: TopicFacts | None, *, cluster_id: str, topic_id: UUID, partition: int) -> str | None:
    """Return why the broker's topic is not the one that the ledger follows, or None if it is."""
    if topic is None:
        return "the topic is gone"
    if topic.cluster_id != cluster_id:
        return f"another cluster answers: the ledger follows cluster {cluster_id}, the broker's is {topic.cluster_id}"
    if topic.topic_id != topic_id:
        return f"the topic was deleted and created again: the ledger follows topic id {topic_id}, the broker has {topic.topic_id}"
    if all(facts.partition != partition for facts in topic.partitions):
        return f"the partition is gone: the topic has {len(topic.partitions)} partitions now"
    return None


def is_other(stream: Stream, topic: TopicFacts) -> bool:
    """Return whether a topic of the same name is not the stream's topic incarnation, or no longer has the stream's partition."""
    found = identity_problem(topic, cluster_id=stream.cluster_id, topic_id=stream.topic_id, partition=stream.partition)
    return found is not None


def range_problem(offsets: OffsetRange, facts: PartitionFacts) -> str | None:
    """Return why a range cannot be read completely from the right topic, or None if it can."""
    if facts.log_start > offsets.start:
        gone = offsets.first(facts.log_start - offsets.start)
        return f"offsets {gone} are gone unread: retention has deleted everything before {facts.log_start}"
    if facts.end < offsets.end:
        return f"the log ends at {facts.end}, before offset {offsets.end} that was planned or read: it was cut, or restored from a copy"
    return None


def lost(stream: Stream, facts: PartitionFacts) -> list[OffsetRange]:
    """Return the offsets that retention has deleted before they were read or reserved."""
    if facts.log_start <= stream.next_offset:
        return []
    return list(subtract(OffsetRange(stream.next_offset, facts.log_start), stream.reserved))


def frontier(stream: Stream) -> int:
    """Return the offset after all offsets that were planned, read or skipped."""
    return max([stream.next_offset, *(piece.end for piece in stream.reserved)])


def known_end(stream: Stream) -> int:
    """Return how far the log must reach: to the frontier or, after an accepted truncation, to where it ended then, if that is lower."""
    return frontier(stream) if stream.accepted_end is None else min(frontier(stream), stream.accepted_end)


def replaced_problem(offsets: OffsetRange) -> str:
    """Return the problem of a log that was truncated and has grown again."""
    return (
        f"offsets {offsets} may hold other records than those that were planned or read: the log was cut at {offsets.start} "
        "under another leader, and has grown past it again"
    )


def _problem(stream: Stream, topic: TopicFacts | None) -> str | None:
    other = identity_problem(topic, cluster_id=stream.cluster_id, topic_id=stream.topic_id, partition=stream.partition)
    if other is not None or topic is None:
        return other
    facts = topic.partition(stream.partition)
    if gone := lost(stream, facts):
        return range_problem(OffsetRange(gone[0].start, facts.log_start), facts)
    if facts.end < known_end(stream):
        return range_problem(OffsetRange(facts.end, frontier(stream)), facts)
    return None


def _unseen(topic: TopicFacts, known: Iterable[Stream]) -> Iterator[PartitionFacts]:
    """Yield the partitions without a stream, if all streams of the topic's name follow this incarnation."""
    same_name = [stream for stream in known if stream.topic == topic.topic]
    if all(stream.topic_id == topic.topic_id for stream in same_name if not stream.retired):
        there = {stream.partition for stream in same_name if stream.topic_id == topic.topic_id}
        yield from (facts for facts in topic.partitions if facts.partition not in there)
