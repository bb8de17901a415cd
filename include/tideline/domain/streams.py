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
    start_offset: int
    """Where it began; what lies before was never planned, unless by a backfill."""
    next_offset: int
    """The head: everything from its start to here is accounted for."""
    reserved: tuple[OffsetRange, ...]
    """What batches have reserved or people have skipped at or after the head; whoever plans must leave it alone."""
    stopped_because: str | None
    accepted_end: int | None = None
    """Where the log ended when a person accepted that it had been cut; until it has passed its frontier again it may end this low."""
    leader_epoch: int | None = None
    """Of the leader at the last look, when the log reached at least to `known_end`. None where no broker has told yet."""
    retired: bool = False
    """Its topic or partition is gone, and a person has said so."""

    @property
    def label(self) -> str:
        """`topic/partition`, as it stands in messages."""
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A pipeline's streams against its topics, each in at most one list."""

    ready: tuple[tuple[Stream, TopicFacts, PartitionFacts], ...]
    """May be planned."""
    inconsistent: tuple[tuple[Stream, str], ...]
    """Were active until now and must stop, each with what was expected and what was found."""
    stopped: tuple[Stream, ...]
    """Were stopped before."""
    unseen: tuple[tuple[TopicFacts, PartitionFacts], ...]
    """Partitions that the ledger does not know: streams that begin now."""


RETURNED = "the topic that was retired is back"
"""What is wrong with a stream whose topic a person has given up, and which stands at the declared name again: after a restore of the brokers."""


def compare(
    streams: Iterable[Stream],
    topics: Iterable[TopicFacts],
    gone: Iterable[str] = (),
    replaced: Mapping[int, OffsetRange] | None = None,
) -> Comparison:
    """Sort a pipeline's streams by whether they may go on, and find the partitions that are new.

    A topic that was created again under its name is not new: its old streams stop, and a person decides about them. Streams of a topic that the
    declaration no longer names rest where they are.

    Args:
        streams: All that the ledger knows of the pipeline.
        topics: The declared topics that exist.
        gone: The declared topics that do not.
        replaced: By stream id, offsets that hold other records than they did, though the log reaches behind them.
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
    unseen = tuple(
        (topic, facts)
        for topic in by_name.values()
        if topic is not None
        for facts in topic.partitions
        if _is_unseen(topic, facts, known)
    )
    return Comparison(ready=tuple(ready), inconsistent=tuple(inconsistent), stopped=tuple(stopped), unseen=unseen)


def identity_problem(topic: TopicFacts | None, *, cluster_id: str, topic_id: UUID, partition: int) -> str | None:
    """Why the broker's topic is not the one that the ledger follows, or None."""
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
    """Whether a topic of the same name is not the one, or no longer has the partition, that the stream follows."""
    found = identity_problem(topic, cluster_id=stream.cluster_id, topic_id=stream.topic_id, partition=stream.partition)
    return found is not None


def range_problem(offsets: OffsetRange, facts: PartitionFacts) -> str | None:
    """Why a range cannot be read as a whole from the right topic, or None."""
    if facts.log_start > offsets.start:
        gone = offsets.first(facts.log_start - offsets.start)
        return f"offsets {gone} are gone unread: retention has deleted everything before {facts.log_start}"
    if facts.end < offsets.end:
        return f"the log ends at {facts.end}, before offset {offsets.end} that was planned or read: it was cut, or restored from a copy"
    return None


def lost(stream: Stream, facts: PartitionFacts) -> list[OffsetRange]:
    """The offsets that retention has deleted before anybody read or reserved them."""
    if facts.log_start <= stream.next_offset:
        return []
    return list(subtract(OffsetRange(stream.next_offset, facts.log_start), stream.reserved))


def frontier(stream: Stream) -> int:
    """The first offset that nobody has planned, read or skipped."""
    return max([stream.next_offset, *(piece.end for piece in stream.reserved)])


def known_end(stream: Stream) -> int:
    """Where the log reached to at the last look, as far as it matters: to the frontier or, after an accepted cut, to where it ended."""
    return frontier(stream) if stream.accepted_end is None else min(frontier(stream), stream.accepted_end)


def replaced_problem(offsets: OffsetRange) -> str:
    """What is wrong with a log that was cut and has grown again."""
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


def _is_unseen(topic: TopicFacts, facts: PartitionFacts, known: Iterable[Stream]) -> bool:
    same_name = [stream for stream in known if stream.topic == topic.topic]
    followed = all(stream.topic_id == topic.topic_id for stream in same_name if not stream.retired)
    return followed and (topic.topic_id, facts.partition) not in {(s.topic_id, s.partition) for s in same_name}
