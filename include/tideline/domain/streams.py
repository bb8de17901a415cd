"""Compare what the ledger knows of a stream with what the broker says now. Pure: decides nothing but what is wrong."""

from collections.abc import Iterable, Mapping
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
    next_offset: int
    """The head: everything before it is accounted for."""
    reserved: tuple[OffsetRange, ...]
    """What batches own at or after the head; whoever plans must leave it alone."""
    stopped_because: str | None

    @property
    def label(self) -> str:
        """`topic/partition`, as it stands in messages."""
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A pipeline's streams against its topics, each in exactly one list."""

    ready: tuple[tuple[Stream, TopicFacts, PartitionFacts], ...]
    """May be planned."""
    sick: tuple[tuple[Stream, str], ...]
    """Were active until now and must stop, each with what was expected and what was found."""
    stopped: tuple[Stream, ...]
    """Were stopped before."""
    unseen: tuple[tuple[TopicFacts, PartitionFacts], ...]
    """Partitions that the ledger does not know: streams that begin now."""


def compare(streams: Iterable[Stream], topics: Iterable[TopicFacts]) -> Comparison:
    """Sort a pipeline's streams by whether they may go on, and find the partitions that are new.

    A topic that was created again under its name is not new: its old streams stop, and a person decides about them.
    """
    by_name = {topic.topic: topic for topic in topics}
    known = list(streams)
    ready, sick, stopped = [], [], []
    for stream in known:
        topic = by_name.get(stream.topic)
        partitions = {facts.partition: facts for facts in topic.partitions} if topic else {}
        if stream.stopped_because is not None:
            stopped.append(stream)
        elif topic is not None:
            problem = _problem(stream, topic, partitions)
            if problem is None:
                ready.append((stream, topic, partitions[stream.partition]))
            else:
                sick.append((stream, problem))
        # A topic that the declaration no longer names: its streams rest where they are.
    unseen = tuple(
        (topic, facts) for topic in by_name.values() for facts in topic.partitions if _is_unseen(topic, facts, known)
    )
    return Comparison(ready=tuple(ready), sick=tuple(sick), stopped=tuple(stopped), unseen=unseen)


def _problem(stream: Stream, topic: TopicFacts, partitions: Mapping[int, PartitionFacts]) -> str | None:
    if topic.topic_id != stream.topic_id:
        return (
            "the topic was deleted and created again: "
            f"the ledger follows topic id {stream.topic_id}, the broker has {topic.topic_id}"
        )
    facts = partitions.get(stream.partition)
    if facts is None:
        return f"the partition is gone: the topic has {len(partitions)} partitions now"
    if facts.log_start > stream.next_offset:
        lost = next(subtract(OffsetRange(stream.next_offset, facts.log_start), stream.reserved), None)
        if lost is not None:
            return f"offsets {lost} are gone unread: retention has deleted everything before {facts.log_start}"
    frontier = max([stream.next_offset, *(piece.end for piece in stream.reserved)])
    if facts.end < frontier:
        return (
            f"the log ends at {facts.end}, before offset {frontier} that was planned or read: "
            "it was cut, or restored from a copy"
        )
    return None


def _is_unseen(topic: TopicFacts, facts: PartitionFacts, known: Iterable[Stream]) -> bool:
    same_name = [stream for stream in known if stream.topic == topic.topic]
    return all(stream.topic_id == topic.topic_id and stream.partition != facts.partition for stream in same_name)
