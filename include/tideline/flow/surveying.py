"""Find what a plan may reserve after the heads: compare streams with the broker, begin new ones, and cut free offsets into batches.

Called within the plan's transaction and under the pipeline's lock. Broker facts from before the lock could be older than what another planner has
reserved since: a healthy log would then seem to be truncated.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import PartitionFacts, Place, TopicFacts
from tideline.domain.offsets import OffsetRange, subtract
from tideline.domain.planning import PlanLimits, cut, newest, records_for
from tideline.domain.states import BatchKind
from tideline.domain.streams import Comparison, Stream, compare, frontier, is_other
from tideline.errors import NeedsOperatorError
from tideline.flow import growing
from tideline.kafka import truncation
from tideline.kafka.broker import Broker
from tideline.kafka.timeline import Timeline
from tideline.ledger import abandoning, decisions, reservations
from tideline.ledger.claimed_outputs import ClaimedOutput
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Reservation, Run
from tideline.sinks import kinds

LATEST_WINS = "latest wins"
"""The reason in the history when the policy abandons batches or leaves holes."""
_POLICY = "policy latest_wins"

Ends = Mapping[Place, int]
"""By topic and partition, the offset before which offsets may be planned."""
Free = Mapping[int, list[OffsetRange]]
"""By stream id, ranges that neither a batch nor a hole has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A pipeline's streams and topics at one moment. Inconsistent streams have been stopped, and new streams have begun."""

    now: datetime
    """The time of the survey, by the clock of the ledger's database."""
    topics: tuple[TopicFacts, ...]
    comparison: Comparison
    ready: Mapping[int, tuple[Stream, TopicFacts, PartitionFacts]]
    """By stream id, the streams that may be planned."""

    def reservation(self, pipeline: Pipeline, stream_id: int, offsets: OffsetRange) -> Reservation:
        """Return what the ledger stores of a range of a ready stream."""
        _, topic, facts = self.ready[stream_id]
        return Reservation(
            offsets=offsets, gaps_allowed=topic.compacted or pipeline.source.gaps == "allowed", facts=facts
        )


def survey(ledger: Ledger, broker: Broker, pipeline: Pipeline, now: datetime) -> Survey:
    """Stop inconsistent streams and begin new ones. `now` is the ledger's time: all plans use one clock, wherever they run.

    Raises:
        RetryableError: The broker did not answer.
        FatalError: The declaration does not fit the cluster: a topic does not exist and was never followed, or a login is refused.
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
        known = _record_losses(ledger, pipeline.name, known, topics)
    known = growing.let_go(ledger, pipeline, known)
    replaced = truncation.replaced(broker, known, topics)
    if replaced:  # the records may be those of another cluster
        check_cluster(broker, pipeline.name, {stream.cluster_id for stream in known if not stream.retired}, topics)
    comparison = growing.hold(ledger, pipeline, known, compare(known, topics, missing, replaced))
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


def _record_losses(ledger: Ledger, pipeline: str, known: list[Stream], topics: Iterable[TopicFacts]) -> list[Stream]:
    """Leave `lost` holes over what retention deleted unread: `latest_wins` would have skipped it. Return the streams as they are then."""
    deleted = _deleted_unread(known, topics)
    if not deleted:
        return known
    if abandoning.abandon_deleted(ledger, pipeline, deleted.values(), LATEST_WINS):
        known = reservations.streams(ledger, pipeline)
        deleted = _deleted_unread(known, topics)
    for stream, offsets in deleted.values():
        for piece in subtract(offsets, stream.reserved):
            decisions.leave_hole(ledger, stream, piece, "lost", reason=LATEST_WINS, decided_by=_POLICY)
    return reservations.streams(ledger, pipeline)


def _deleted_unread(known: Iterable[Stream], topics: Iterable[TopicFacts]) -> dict[int, tuple[Stream, OffsetRange]]:
    """Return, by stream id, the active streams with offsets after their heads that retention has deleted, and these offsets."""
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
    """Refuse another cluster, where offsets mean other records: nothing may be planned, stopped, adopted or published because of it.

    Compares the cluster ids of `topics`, which were read before, and then queries the id again: the address may lead to another cluster at any time.

    Raises:
        NeedsOperatorError: A cluster answers that is not among the `expected` ones, whose offsets the ledger stores.
    """
    if not expected:
        return
    unexpected = {*(topic.cluster_id for topic in topics), broker.cluster_id()} - expected
    if unexpected:
        raise NeedsOperatorError(
            f"{pipeline}: expected cluster {', '.join(sorted(expected))} at the declared address, found cluster {', '.join(sorted(unexpected))}",
            next_step="point source.bootstrap_servers at the cluster whose offsets these are; nothing was changed",
            entry="another-cluster",
        )


def _start_streams(
    ledger: Ledger, timeline: Timeline, pipeline: Pipeline, comparison: Comparison, known: Iterable[Stream]
) -> list[tuple[Stream, TopicFacts, PartitionFacts]]:
    """Begin the unseen partitions: at the declared start, or at their first offset if the topic or the pattern's set of topics has grown."""
    source = pipeline.source
    seen = {stream.topic for stream in known}
    # A pattern may have matched no topic in earlier plans. Topics that it matches now are new all the same.
    grown_pattern = source.topic_pattern is not None and reservations.was_planned_before(ledger, pipeline.name)
    started = []
    begins = {}
    if isinstance(source.start, datetime):
        unseen = {
            (topic.topic, facts.partition): facts.end
            for topic, facts in comparison.unseen
            if not grown_pattern and topic.topic not in seen
        }
        begins = timeline.edges(unseen, source.start)
    for topic, facts in comparison.unseen:
        grown = grown_pattern or topic.topic in seen
        start = facts.log_start
        if not grown and source.start == "latest":
            start = facts.end
        elif not grown and isinstance(source.start, datetime):
            start = begins[topic.topic, facts.partition]
        stream = reservations.start_stream(ledger, pipeline.name, topic, facts, start)
        started.append((stream, topic, facts))
    return started


def ends_at(broker: Broker, found: Survey, when: datetime) -> dict[Place, int]:
    """Return where a run that takes the records before `when` ends, for each ready partition."""
    return Timeline(broker, found.now).run_ends(_ends(found), when, heads=_heads(found))


def edges_at(broker: Broker, found: Survey, when: datetime, *, behind_heads: bool = False) -> dict[Place, int]:
    """Return where `when` begins, for each ready partition. With `behind_heads`, positions before the heads need not be exact."""
    return Timeline(broker, found.now).edges(_ends(found), when, floors=_heads(found) if behind_heads else None)


def _ends(found: Survey) -> dict[Place, int]:
    return {(topic.topic, facts.partition): facts.end for _, topic, facts in found.ready.values()}


def _heads(found: Survey) -> dict[Place, int]:
    return {(topic.topic, facts.partition): stream.next_offset for stream, topic, facts in found.ready.values()}


def free_behind_heads(found: Survey, ends: Ends | None) -> dict[int, list[OffsetRange]]:
    """Return the free ranges between each head and its end. If `ends` is None, they end at the last stable offsets."""
    free = {}
    for stream_id, (stream, topic, facts) in found.ready.items():
        end = facts.end if ends is None else ends[topic.topic, facts.partition]
        if end > stream.next_offset:
            free[stream_id] = list(subtract(OffsetRange(stream.next_offset, end), stream.reserved))
    return free


def batches(
    ledger: Ledger, pipeline: Pipeline, found: Survey, free: Free, *, run_batches: int | None = None
) -> list[dict[int, Reservation]]:
    """Cut free ranges into batches within the pipeline's limits. If `run_batches` is None, the batches cover all of the ranges."""
    total = sum(len(piece) for ranges in free.values() for piece in ranges)
    limits = PlanLimits(batch_records=_batch_records(ledger, pipeline), run_batches=run_batches or max(1, total))
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
    """Return the newest free ranges that fit into one run, none before `starts`. Leave holes over older ones, decided by the policy."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCall:
    """The arguments of one plan, within its transaction."""

    ledger: Ledger
    broker: Broker
    pipeline: Pipeline
    run: Run
    reason: str | None
    outputs: Sequence[ClaimedOutput]
    """Where the pipeline writes to, asked before the transaction begins."""

    @property
    def latest_wins(self) -> bool:
        """Return whether the pipeline loads only the newest records and skips a backlog."""
        return self.pipeline.source.delivery == "latest_wins"

    @property
    def is_stateful(self) -> bool:
        """Return whether the pipeline folds its records into a state."""
        return self.pipeline.state is not None

    def reserve(
        self,
        kind: BatchKind,
        found: Survey,
        free: Free,
        *,
        run_batches: int | None = None,
        supersedes: int | None = None,
    ) -> list[int]:
        """Reserve the free ranges as batches of one kind: all of them, or at most `run_batches` batches."""
        wanted = batches(self.ledger, self.pipeline, found, free, run_batches=run_batches)
        return reservations.reserve(
            self.ledger,
            self.pipeline.name,
            self.run,
            kind,
            wanted,
            reason=self.reason,
            supersedes=supersedes,
            outside=kinds.of(self.pipeline).is_outside,
            stateful=self.is_stateful,
        )
