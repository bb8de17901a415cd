"""What people decide, with a reason: abandon a batch, skip a range, accept a loss. To adopt a topic is next door.

Each is one transaction under the pipeline's lock, so that no plan reserves in between what is being decided about. Called again after it has taken
effect, it changes nothing and says so.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from tideline.declaration.pipelines import Pipeline
from tideline.domain.offsets import LAST, OffsetRange, subtract
from tideline.domain.requests import NamedRange
from tideline.domain.states import BatchKind
from tideline.domain.streams import Stream, frontier, identity_problem, lost
from tideline.errors import FatalError
from tideline.flow import candidates, truncation
from tideline.kafka.broker import Broker
from tideline.ledger import decisions, heads, output_tables, reservations
from tideline.ledger.connection import Ledger

_RESERVING = (BatchKind.LIVE, BatchKind.BACKFILL)
READING = (*_RESERVING, BatchKind.REPLAY)
"""All but re-drives, which do not read Kafka."""


@contextmanager
def deciding(ledger: Ledger, pipeline: str, reason: str) -> Iterator[datetime]:
    """The pipeline's lock and one transaction, and the moment at which it was given; then heads go on over what was decided."""
    if not reason.strip():
        raise FatalError(
            "a decision needs a reason, found none: it will stand in the history",
            next_step="say why: --reason '...'",
            entry="no-reason",
        )
    with ledger.transaction():
        yield reservations.lock_pipeline(ledger, pipeline)
    heads.advance_published(ledger, pipeline)


def abandon(ledger: Ledger, batch_id: int, *, reason: str, force: bool = False) -> None:
    """Give up a batch that is not published: its offsets are free, and the next plan takes them again.

    With `force` also one that is being written: the attempt is fenced first, and can never publish.

    Raises:
        FatalError: There is no such batch, it is published, somebody writes it, or the reason is blank.
    """
    with ledger.transaction():
        batch = ledger.row("find_batch", batch_id=batch_id)
    if batch is None:
        raise FatalError(f"batch {batch_id} is not in the ledger", next_step="check the id", entry="no-such-batch")
    with deciding(ledger, batch["pipeline"], reason):
        decisions.set_reason(ledger, reason)
        decisions.abandon(ledger, batch_id, force=force)


def skip(ledger: Ledger, broker: Broker, pipeline: Pipeline, piece: NamedRange, *, reason: str) -> list[int]:
    """Leave offsets out for good, as a `skipped` hole that a backfill can fill later; returns the batches abandoned for it.

    Raises:
        FatalError: Offsets are loaded already, lie before the stream's start or behind the log's end, or somebody is writing them.
        RetryableError: Broker or ledger did not answer.
    """
    with deciding(ledger, pipeline.name, reason) as now:
        found = candidates.survey(ledger, broker, pipeline, now)
        decisions.set_reason(ledger, reason)  # only now: what the survey stops has a reason of its own
        stream = _followed(found, piece)
        abandoned = abandon_on(ledger, stream, piece.offsets)
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
        *(stream for stream, _ in found.comparison.inconsistent),
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
    is read twice, and what now stands before the head is loaded only by a replay. So it is where the log has passed the head already. Where the cause
    has gone the stream just goes on.

    Raises:
        FatalError: No such stream is stopped, or the topic is another one.
        RetryableError: Broker or ledger did not answer.
    """
    with deciding(ledger, pipeline.name, reason) as now:
        found = candidates.survey(ledger, broker, pipeline, now)
        decisions.set_reason(ledger, reason)
        stopped = [*(stream for stream, _ in found.comparison.inconsistent), *found.comparison.stopped]
        chosen = [s for s in stopped if s.topic == topic and partition in {None, s.partition}]
        if not chosen:
            wanted = topic if partition is None else f"{topic}/{partition}"
            raise FatalError(
                f"{pipeline.name}: no stream of {wanted} is stopped",
                next_step=f"look at them: tideline streams {pipeline.name}",
                entry="nothing-to-decide",
            )
        others = truncation.replaced(broker, chosen, found.topics)
        return [
            _accept(ledger, pipeline.name, found, stream, reason) + _told(pipeline.name, stream, others)
            for stream in chosen
        ]


def _told(pipeline: str, stream: Stream, others: Mapping[int, OffsetRange]) -> str:
    """What a person should know of offsets that hold other records than they did."""
    if stream.stream_id not in others:
        return ""
    piece = f"{stream.label} {others[stream.stream_id]}"
    return (
        f"; {piece} holds other records than it did, and what is loaded of it stays: to load what stands there now, "
        f"tideline replay {pipeline} --range '{piece}' --reason ..."
    )


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
        abandon_on(ledger, stream, OffsetRange(stream.next_offset, facts.log_start), READING)
    if facts.end < frontier(stream):
        abandon_on(ledger, stream, OffsetRange(facts.end, LAST), READING)
    now = next(s for s in reservations.streams(ledger, pipeline) if s.stream_id == stream.stream_id)
    gone = lost(now, facts)
    for piece in gone:
        decisions.leave_hole(ledger, stream, piece, "lost", reason=reason)
    reached = frontier(now)
    cut = facts.end < reached
    decisions.resume(ledger, stream, accepted_end=facts.end if cut else None, leader_epoch=facts.leader_epoch)
    if gone:
        return f"{stream.label}: {', '.join(map(str, gone))} recorded as lost; goes on at {facts.log_start}"
    if cut:
        return f"{stream.label}: the log ends at {facts.end}; goes on at {reached} once the log has passed it"
    return f"{stream.label}: nothing is missing now; goes on at {now.next_offset}"


def abandon_on(
    ledger: Ledger, stream: Stream, offsets: OffsetRange, kinds: Iterable[BatchKind] = _RESERVING
) -> list[int]:
    """Give up the open batches of these kinds over some of a stream's offsets; returns them."""
    batch_ids = decisions.open_on(ledger, stream, offsets, kinds)
    for batch_id in batch_ids:
        decisions.abandon(ledger, batch_id)
    return batch_ids


def free_table(ledger: Ledger, pipeline: str, *, reason: str) -> str:
    """Let other pipelines have the table of a pipeline that was given up; the table's name. Its rows stay. A plan of the pipeline takes it again.

    Raises:
        FatalError: The ledger does not know the pipeline, it has no table, batches of it are open, or the reason is blank.
    """
    with ledger.transaction():
        known = reservations.is_known(ledger, pipeline)
    if not known:
        raise FatalError(
            f"expected a pipeline that the ledger knows, found {pipeline!r}",
            next_step="check the name: tideline pipelines",
            entry="no-such-pipeline",
        )
    with deciding(ledger, pipeline, reason):
        decisions.set_reason(ledger, reason)
        return output_tables.free(ledger, pipeline)
