"""What people decide, with a reason: abandon a batch, skip a range, accept a loss, adopt a topic that was created again.

Each is one transaction under the pipeline's lock, so that no plan reserves in between what is being decided about. Called again after it has taken
effect, it changes nothing and says so.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tideline.domain.offsets import LAST, OffsetRange, subtract
from tideline.domain.requests import NamedRange
from tideline.domain.states import BatchKind
from tideline.domain.streams import Stream, frontier, identity_problem, is_other, lost
from tideline.errors import FatalError
from tideline.flow import candidates
from tideline.kafka import Broker
from tideline.ledger import decisions, heads, reservations
from tideline.ledger.connection import Ledger
from tideline.pipelines import Pipeline

_RESERVING = (BatchKind.LIVE, BatchKind.BACKFILL)
_READING = (*_RESERVING, BatchKind.REPLAY)
"""All but re-drives, which do not read Kafka."""


@contextmanager
def _deciding(ledger: Ledger, pipeline: str, reason: str) -> Iterator[None]:
    """The pipeline's lock and one transaction; then heads go on over what was decided."""
    if not reason.strip():
        raise FatalError(
            "a decision needs a reason, found none: it will stand in the history",
            next_step="say why: --reason '...'",
            entry="no-reason",
        )
    with ledger.transaction():
        reservations.lock_pipeline(ledger, pipeline)
        yield
    heads.advance_published(ledger, pipeline)


def abandon(ledger: Ledger, batch_id: int, *, reason: str) -> None:
    """Give up a batch that is not published: its offsets are free, and the next plan takes them again.

    Raises:
        FatalError: There is no such batch, it is published, somebody writes it, or the reason is blank.
    """
    with ledger.transaction():
        batch = ledger.row("find_batch", batch_id=batch_id)
    if batch is None:
        raise FatalError(f"batch {batch_id} is not in the ledger", next_step="check the id", entry="no-such-batch")
    with _deciding(ledger, batch["pipeline"], reason):
        decisions.set_reason(ledger, reason)
        decisions.abandon(ledger, batch_id)


def skip(ledger: Ledger, broker: Broker, pipeline: Pipeline, piece: NamedRange, *, reason: str) -> list[int]:
    """Leave offsets out for good, as a `skipped` hole that a backfill can fill later; returns the batches abandoned for it.

    Raises:
        FatalError: Offsets are loaded already, lie before the stream's start or behind the log's end, or somebody is writing them.
        RetryableError: Broker or ledger did not answer.
    """
    with _deciding(ledger, pipeline.name, reason):
        found = candidates.survey(ledger, broker, pipeline)
        decisions.set_reason(ledger, reason)  # only now: what the survey stops has a reason of its own
        stream = _followed(found, piece)
        abandoned = _abandon(ledger, stream, piece.offsets)
        # Only now: a batch that was open a moment ago may have been published meanwhile. What is refused takes all of it back.
        _check_skip(ledger, found, stream, piece)
        taken = [owner.offsets for owner in decisions.owners(ledger, [(stream.stream_id, piece.offsets)])]
        for rest in subtract(piece.offsets, taken):
            decisions.leave_hole(ledger, stream, rest, "skipped", reason=reason)
    return abandoned


def _followed(found: candidates.Survey, piece: NamedRange) -> Stream:
    for stream in _streams(found):
        if (stream.topic, stream.partition) == (piece.topic, piece.partition):
            return stream
    raise FatalError(
        f"{piece}: the pipeline follows no such partition",
        next_step="look at its streams: tideline streams",
        entry="no-such-stream",
    )


def _streams(found: candidates.Survey) -> list[Stream]:
    """All streams that the pipeline follows, whether or not they go on."""
    return [
        *(stream for stream, _, _ in found.ready.values()),
        *(stream for stream, _ in found.comparison.sick),
        *found.comparison.stopped,
    ]


def _check_skip(ledger: Ledger, found: candidates.Survey, stream: Stream, piece: NamedRange) -> None:
    problems = [
        f"{owner.offsets} is loaded by batch {owner.batch_id}"
        for owner in decisions.owners(ledger, [(stream.stream_id, piece.offsets)])
        if owner.batch_id is not None
    ]
    if piece.offsets.start < stream.start_offset:
        problems.append(f"the stream begins at {stream.start_offset}: what lies before is not loaded anyway")
    ends = {(topic.topic, facts.partition): facts.end for topic in found.topics for facts in topic.partitions}
    end = max(ends.get((piece.topic, piece.partition), 0), frontier(stream))
    if piece.offsets.end > end:
        problems.append(f"the log ends at {end}")
    if problems:
        raise FatalError(
            f"{piece} cannot be skipped: " + "; ".join(problems),
            next_step="name only offsets that wait to be loaded; nothing was changed",
            entry="cannot-skip",
        )


def accept_loss(
    ledger: Ledger, broker: Broker, pipeline: Pipeline, topic: str, partition: int | None, *, reason: str
) -> list[str]:
    """Let streams of a topic go on that stopped because offsets are gone; one line for each says what was decided.

    What retention deleted unread becomes a `lost` hole over exactly those offsets. A log that was cut goes on once it has passed the head: nothing
    is read twice, and what now stands before the head is loaded only by a replay. Where the cause has gone the stream just goes on.

    Raises:
        FatalError: No such stream is stopped, or the topic is another one.
        RetryableError: Broker or ledger did not answer.
    """
    with _deciding(ledger, pipeline.name, reason):
        found = candidates.survey(ledger, broker, pipeline)
        decisions.set_reason(ledger, reason)
        stopped = [*(stream for stream, _ in found.comparison.sick), *found.comparison.stopped]
        chosen = [s for s in stopped if s.topic == topic and partition in {None, s.partition}]
        if not chosen:
            wanted = topic if partition is None else f"{topic}/{partition}"
            raise FatalError(
                f"{pipeline.name}: no stream of {wanted} is stopped",
                next_step=f"look at them: tideline streams {pipeline.name}",
                entry="nothing-to-decide",
            )
        return [_accept(ledger, pipeline.name, found, stream, reason) for stream in chosen]


def _accept(ledger: Ledger, pipeline: str, found: candidates.Survey, stream: Stream, reason: str) -> str:
    topic = next((topic for topic in found.topics if topic.topic == stream.topic), None)
    problem = identity_problem(
        topic, cluster_id=stream.cluster_id, topic_id=stream.topic_id, partition=stream.partition
    )
    if problem is not None or topic is None:
        raise FatalError(
            f"{stream.label}: {problem}: no offsets of it will come back",
            next_step=f"adopt the topic as it is now: tideline adopt-topic {pipeline} {stream.topic} --reason ...",
            entry="topic-recreated",
        )
    facts = topic.partition(stream.partition)
    if facts.log_start > stream.next_offset:
        _abandon(ledger, stream, OffsetRange(stream.next_offset, facts.log_start), _READING)
    if facts.end < frontier(stream):
        _abandon(ledger, stream, OffsetRange(facts.end, LAST), _READING)
    now = next(s for s in reservations.streams(ledger, pipeline) if s.stream_id == stream.stream_id)
    gone = lost(now, facts)
    for piece in gone:
        decisions.leave_hole(ledger, stream, piece, "lost", reason=reason)
    reached = frontier(now)
    cut = facts.end < reached
    decisions.resume(ledger, stream, accepted_end=facts.end if cut else None)
    if gone:
        return f"{stream.label}: {', '.join(map(str, gone))} recorded as lost; goes on at {facts.log_start}"
    if cut:
        return f"{stream.label}: the log ends at {facts.end}; goes on at {reached} once the log has passed it"
    return f"{stream.label}: nothing is missing now; goes on at {now.next_offset}"


def _abandon(
    ledger: Ledger, stream: Stream, offsets: OffsetRange, kinds: Iterable[BatchKind] = _RESERVING
) -> list[int]:
    batch_ids = decisions.open_on(ledger, stream, offsets, kinds)
    for batch_id in batch_ids:
        decisions.abandon(ledger, batch_id)
    return batch_ids


def adopt_topic(ledger: Ledger, broker: Broker, pipeline: Pipeline, topic: str, *, reason: str) -> list[str]:
    """Follow a topic as it is now, after it was created again: old streams retire with their history, new ones begin at their first offset.

    Raises:
        FatalError: The topic is the one that the ledger follows, is not there, or is none of the pipeline's.
        NeedsOperatorError: Another cluster answers.
        RetryableError: Broker or ledger did not answer.
    """
    with _deciding(ledger, pipeline.name, reason):
        known = reservations.streams(ledger, pipeline.name)
        topics = broker.topic_facts()
        followed = {stream.cluster_id for stream in known if not stream.retired}
        candidates.check_cluster(broker, pipeline.name, followed, topics)
        decisions.set_reason(ledger, reason)
        now = next((facts for facts in topics if facts.topic == topic), None)
        if now is None:
            raise FatalError(
                f"{pipeline.name}: topic {topic} is not there, or the declaration does not name it",
                next_step="create it, or correct source.topics in the declaration",
                entry="topic-missing",
            )
        old = [stream for stream in known if stream.topic == topic and not stream.retired and is_other(stream, now)]
        if not old:
            raise FatalError(
                f"{pipeline.name}: the ledger follows topic id {now.topic_id} of {topic} already: there is nothing to adopt",
                next_step=f"look at its streams: tideline streams {pipeline.name}",
                entry="nothing-to-decide",
            )
        _retire(ledger, old)
        ids = {(stream.topic_id, stream.partition) for stream in known}
        begun = [
            reservations.start_stream(ledger, pipeline.name, now, facts.partition, facts.log_start)
            for facts in now.partitions
            if (now.topic_id, facts.partition) not in ids
        ]
    return [f"{stream.label} of topic id {stream.topic_id}: retired at {stream.next_offset}" for stream in old] + [
        f"{stream.label} of topic id {now.topic_id}: begins at {stream.next_offset}" for stream in begun
    ]


def _retire(ledger: Ledger, streams: Iterable[Stream]) -> None:
    for stream in streams:
        _abandon(ledger, stream, OffsetRange(0, LAST), _READING)
        decisions.retire(ledger, stream)
