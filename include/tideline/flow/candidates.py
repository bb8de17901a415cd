"""What a plan may reserve behind the heads: streams compared with the broker, new ones begun, and what is free cut into batches.

Called within the plan's transaction and under the pipeline's lock: facts from before the lock could be older than what another planner has
reserved since, and then a healthy log would seem to have been cut.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.domain.offsets import OffsetRange, subtract
from tideline.domain.planning import Limits, cut, newest, records_for
from tideline.domain.streams import Comparison, Stream, compare, frontier, is_other
from tideline.errors import NeedsOperatorError
from tideline.flow import truncation
from tideline.flow.timeline import Timeline
from tideline.kafka.broker import Broker
from tideline.ledger import decisions, reservations
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Reservation

LATEST_WINS = "latest wins"
"""Why a policy gives batches up and leaves holes, as the history says it."""
_POLICY = "policy latest_wins"

Ends = Mapping[tuple[str, int], int]
"""By topic and partition, the offset before which it may be planned."""
Free = Mapping[int, list[OffsetRange]]
"""By stream id, what nobody has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A pipeline's streams and topics at one moment; what is inconsistent has been stopped, and what is new has begun."""

    now: datetime
    """The moment, by the clock of the ledger's database."""
    topics: tuple[TopicFacts, ...]
    comparison: Comparison
    ready: Mapping[int, tuple[Stream, TopicFacts, PartitionFacts]]
    """By stream id: what may be read."""

    def reservation(self, pipeline: Pipeline, stream_id: int, offsets: OffsetRange) -> Reservation:
        """What the ledger needs to know of a range of a ready stream."""
        _, topic, facts = self.ready[stream_id]
        return Reservation(
            offsets=offsets, gaps_allowed=topic.compacted or pipeline.source.gaps == "allowed", facts=facts
        )


def survey(ledger: Ledger, broker: Broker, pipeline: Pipeline, now: datetime) -> Survey:
    """Stop what is inconsistent and begin what is new. `now` is the ledger's: one clock for all, wherever a plan runs.

    Raises:
        RetryableError: The broker did not answer.
        FatalError: The declaration does not fit the cluster: a topic has never been there, a login is refused.
        NeedsOperatorError: Another cluster answers.
    """
    known = reservations.streams(ledger, pipeline.name)
    topics = broker.topic_facts()
    check_cluster(broker, pipeline.name, {stream.cluster_id for stream in known if not stream.retired}, topics)
    followed = {stream.topic for stream in known if not stream.retired}
    missing = broker.missing(topics, followed)
    for topic, error in missing.items():
        if topic not in followed:
            raise error
    if pipeline.source.delivery == "latest_wins":
        known = _let_go(ledger, pipeline.name, known, topics)
    for stream in known:
        if stream.stopped_because is not None and not stream.retired and not pipeline.source.names(stream.topic):
            # It rests, and must not fail every run of the others; named again, it is compared again.
            decisions.resume(ledger, stream, accepted_end=None)
    replaced = truncation.replaced(broker, known, topics)
    if replaced:  # another cluster may have shown its records
        check_cluster(broker, pipeline.name, {stream.cluster_id for stream in known if not stream.retired}, topics)
    comparison = compare(known, topics, missing, replaced)
    _stop(ledger, comparison)
    for stream, _, facts in comparison.ready:
        if stream.accepted_end is not None and facts.end >= frontier(stream):
            decisions.forget_cut(ledger, stream)
    reservations.keep_leader_epochs(ledger, ((stream, facts) for stream, _, facts in comparison.ready))
    started = _start_streams(ledger, Timeline(broker, now), pipeline, comparison, known)
    return Survey(
        now=now,
        topics=tuple(topics),
        comparison=comparison,
        ready={part[0].stream_id: part for part in (*comparison.ready, *started)},
    )


def _stop(ledger: Ledger, comparison: Comparison) -> None:
    for stream, problem in comparison.inconsistent:
        if stream.retired:
            decisions.bring_back(ledger, stream, problem)
        else:
            reservations.stop_stream(ledger, stream.stream_id, problem)


def _let_go(ledger: Ledger, pipeline: str, known: list[Stream], topics: Iterable[TopicFacts]) -> list[Stream]:
    """Leave holes over what retention deleted unread, in the name of a policy that would have skipped it; the streams as they are then."""
    passed = _passed(known, topics)
    if not passed:
        return known
    if decisions.abandon_deleted(ledger, pipeline, passed.values(), LATEST_WINS):
        known = reservations.streams(ledger, pipeline)
        passed = _passed(known, topics)
    for stream, offsets in passed.values():
        for piece in subtract(offsets, stream.reserved):
            decisions.leave_hole(ledger, stream, piece, "lost", reason=LATEST_WINS, decided_by=_POLICY)
    return reservations.streams(ledger, pipeline)


def _passed(known: Iterable[Stream], topics: Iterable[TopicFacts]) -> dict[int, tuple[Stream, OffsetRange]]:
    """By stream id, what of an active stream retention has deleted behind its head."""
    by_name = {topic.topic: topic for topic in topics}
    found = {}
    for stream in known:
        topic = by_name.get(stream.topic)
        if topic is None or stream.retired or stream.stopped_because is not None or is_other(stream, topic):
            continue
        start = topic.partition(stream.partition).log_start
        if start > stream.next_offset:
            found[stream.stream_id] = (stream, OffsetRange(stream.next_offset, start))
    return found


def check_cluster(broker: Broker, pipeline: str, expected: set[str], topics: Iterable[TopicFacts]) -> None:
    """Offsets mean nothing in another cluster: nothing may be planned from it, stopped because of it, adopted or published.

    The topics are looked at as well, and before the cluster is asked: the address may lead to another one from any moment on.

    Raises:
        NeedsOperatorError: Another cluster answers than the ones whose offsets the ledger keeps.
    """
    if not expected:
        return
    strange = {*(topic.cluster_id for topic in topics), broker.cluster_id()} - expected
    if strange:
        raise NeedsOperatorError(
            f"{pipeline}: expected cluster {', '.join(sorted(expected))} at the declared address, found cluster {', '.join(sorted(strange))}",
            next_step="point source.bootstrap_servers at the cluster whose offsets these are; nothing was changed",
            entry="another-cluster",
        )


def _start_streams(
    ledger: Ledger, timeline: Timeline, pipeline: Pipeline, comparison: Comparison, known: Iterable[Stream]
) -> list[tuple[Stream, TopicFacts, PartitionFacts]]:
    """New partitions: at the declared start, or at their first offset where the topic, or a pattern's set of topics, has grown."""
    source = pipeline.source
    seen = {stream.topic for stream in known}
    # A pattern may have fitted nothing before: what appears then appears later all the same.
    late = source.topic_pattern is not None and reservations.was_planned_before(ledger, pipeline.name)
    started = []
    for topic, facts in comparison.unseen:
        grown = late or topic.topic in seen
        start = facts.log_start
        if not grown and source.start == "latest":
            start = facts.end
        elif not grown and isinstance(source.start, datetime):
            start = timeline.edges(topic.topic, [facts], source.start)[facts.partition]
        stream = reservations.start_stream(ledger, pipeline.name, topic, facts, start)
        started.append((stream, topic, facts))
    return started


def ends_at(broker: Broker, found: Survey, when: datetime) -> dict[tuple[str, int], int]:
    """Where a run that takes the records before `when` ends in each ready partition."""
    ends: dict[tuple[str, int], int] = {}
    for topic, streams in _by_topic(found).items():
        heads = {facts.partition: stream.next_offset for stream, facts in streams}
        offsets = Timeline(broker, found.now).run_ends(topic, [facts for _, facts in streams], when, heads=heads)
        ends |= {(topic, number): offset for number, offset in offsets.items()}
    return ends


def edges_at(
    broker: Broker, found: Survey, when: datetime, *, behind_heads: bool = False
) -> dict[tuple[str, int], int]:
    """Where `when` begins in each ready partition; with `behind_heads` what lies before the heads does not matter."""
    begins: dict[tuple[str, int], int] = {}
    for topic, streams in _by_topic(found).items():
        floors = {facts.partition: stream.next_offset if behind_heads else 0 for stream, facts in streams}
        offsets = Timeline(broker, found.now).edges(topic, [facts for _, facts in streams], when, floors=floors)
        begins |= {(topic, number): offset for number, offset in offsets.items()}
    return begins


def _by_topic(found: Survey) -> dict[str, list[tuple[Stream, PartitionFacts]]]:
    streams: dict[str, list[tuple[Stream, PartitionFacts]]] = {}
    for stream, topic, facts in found.ready.values():
        streams.setdefault(topic.topic, []).append((stream, facts))
    return streams


def free_behind_heads(found: Survey, ends: Ends | None) -> dict[int, list[OffsetRange]]:
    """What lies between each head and its end and is not taken; None for `ends` means all that may be read now."""
    free = {}
    for stream_id, (stream, topic, facts) in found.ready.items():
        end = facts.end if ends is None else ends[topic.topic, facts.partition]
        if end > stream.next_offset:
            free[stream_id] = list(subtract(OffsetRange(stream.next_offset, end), stream.reserved))
    return free


def batches(
    ledger: Ledger, pipeline: Pipeline, found: Survey, free: Free, *, run_batches: int | None = None
) -> list[dict[int, Reservation]]:
    """Free ranges as batches within the pipeline's limits; `run_batches` None where all of them are wanted."""
    total = sum(len(piece) for ranges in free.values() for piece in ranges)
    limits = Limits(batch_records=_batch_records(ledger, pipeline), run_batches=run_batches or max(1, total))
    return [
        {stream_id: found.reservation(pipeline, stream_id, offsets) for stream_id, offsets in batch.items()}
        for batch in cut(free, limits)
    ]


def _batch_records(ledger: Ledger, pipeline: Pipeline) -> int:
    limits = pipeline.limits
    return records_for(limits.batch_records, limits.batch_bytes, reservations.average_bytes(ledger, pipeline.name))


def skip_to_latest(
    ledger: Ledger, pipeline: Pipeline, found: Survey, free: Free, starts: Ends
) -> dict[int, list[OffsetRange]]:
    """Of the free ranges, the newest that fit into one run and none before `starts`; what is older becomes a hole in the policy's name."""
    recent: dict[int, list[OffsetRange]] = {}
    for stream_id, ranges in free.items():
        _, topic, facts = found.ready[stream_id]
        start = starts.get((topic.topic, facts.partition), 0)
        pieces = [OffsetRange(max(piece.start, start), piece.end) for piece in ranges if piece.end > start]
        recent[stream_id] = pieces
    kept = newest(recent, _batch_records(ledger, pipeline) * pipeline.limits.run_batches)
    for stream_id, ranges in free.items():
        for piece in ranges:
            for older in subtract(piece, kept.get(stream_id, [])):
                decisions.leave_hole(
                    ledger,
                    found.ready[stream_id][0],
                    older,
                    "skipped",
                    reason=LATEST_WINS,
                    decided_by=_POLICY,
                )
    return kept
