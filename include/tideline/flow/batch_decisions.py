"""Decisions of an operator about batches and offsets, each with a reason: abandon a batch, retry it, skip a range, accept a loss.

Each decision is one transaction under the pipeline's lock, so that no plan reserves the same offsets meanwhile. A decision that is called again after
it has taken effect changes nothing and says so.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import datetime

from tideline.declaration.pipelines import Pipeline
from tideline.domain.offsets import LAST, OffsetRange, subtract
from tideline.domain.requests import NamedRange
from tideline.domain.states import BatchKind, BatchState
from tideline.domain.streams import Stream, frontier, identity_problem, is_of_growth, lost
from tideline.errors import FatalError
from tideline.flow import settling, surveying
from tideline.flow.settling import Seals
from tideline.kafka import truncation
from tideline.kafka.broker import Broker
from tideline.ledger import abandoning, attempts, decisions, events, heads, reservations
from tideline.ledger.connection import Ledger

_RESERVING = (BatchKind.LIVE, BatchKind.BACKFILL)
READING = (*_RESERVING, BatchKind.REPLAY)
"""All kinds except re-drives, which do not read Kafka."""


@contextmanager
def deciding(ledger: Ledger, pipeline: str, reason: str, *, dry_run: bool = False) -> Iterator[datetime]:
    """Open a transaction under the pipeline's lock, and yield the time at which the lock was given. Advance the heads after the commit.

    With `dry_run`, the block is carried out, checked against all laws, and undone.

    Raises:
        FatalError: The reason is blank.
    """
    if not reason.strip():
        raise FatalError(
            "a decision needs a reason, found none: it is stored in the history",
            next_step="say why: --reason '...'",
            entry="no-reason",
        )
    with ledger.transaction(), ledger.trial() if dry_run else nullcontext():
        yield reservations.lock_pipeline(ledger, pipeline)
    if not dry_run:
        heads.advance_published(ledger, pipeline)


def abandon(ledger: Ledger, batch_id: int, *, reason: str, force: bool = False, dry_run: bool = False) -> None:
    """Give up a batch that is not published: its offsets are free, and the next plan takes them again.

    With `dry_run`, change nothing. With `force`, also give up a batch that is being written. Its attempt is fenced first, and can never publish. A
    batch that may be committed outside is fenced there first; `force` also gives up one of which the sink cannot say whose commit it has.

    Raises:
        FatalError: There is no such batch, it is published or committed, an attempt is writing it, or the reason is blank.
        NeedsOperatorError: The sink's receipt is of an unknown attempt, or may be forgotten.
        RetryableError: The outside sink or the ledger did not answer.
    """
    with ledger.transaction():
        batch = attempts.find(ledger, batch_id)
    if batch is None:
        raise FatalError(f"batch {batch_id} is not in the ledger", next_step="check the id", entry="no-such-batch")

    def decide(seals: Seals) -> None:
        with deciding(ledger, batch["pipeline"], reason, dry_run=dry_run):
            decisions.set_reason(ledger, reason)
            abandoning.abandon(ledger, batch_id, force=force, seals=seals)

    settling.sealed(ledger, decide, force=force, dry_run=dry_run)


def skip(
    ledger: Ledger, broker: Broker, pipeline: Pipeline, piece: NamedRange, *, reason: str, dry_run: bool = False
) -> list[int]:
    """Leave a `skipped` hole over offsets, which only a backfill can fill later. Return the batches that were abandoned for it.

    With `dry_run`, change nothing, and return those that would be.

    Raises:
        FatalError: Some offsets are loaded, are being written, or lie before the stream's start or after the log's end. Or the reason is blank.
        RetryableError: The broker or the ledger did not answer.
    """

    def decide(seals: Seals) -> list[int]:
        with deciding(ledger, pipeline.name, reason, dry_run=dry_run) as now:
            found = surveying.survey(ledger, broker, pipeline, now)
            decisions.set_reason(ledger, reason)  # after the survey: streams that it stops have their own reason
            stream = _followed(found, piece)
            abandoned = abandon_on(ledger, stream, piece.offsets, seals=seals)
            # Check after abandoning: an open batch may have been published meanwhile. A refusal rolls back the whole transaction.
            _check_skip(ledger, found, stream, piece)
            decisions.give_up_rewound(ledger, stream, piece.offsets)
            taken = [owner.offsets for owner in decisions.owners(ledger, [(stream.stream_id, piece.offsets)])]
            for rest in subtract(piece.offsets, taken):
                decisions.leave_hole(ledger, stream, rest, "skipped", reason=reason)
        return abandoned

    return settling.sealed(ledger, decide, pipeline=pipeline, dry_run=dry_run)


def _followed(found: surveying.Survey, piece: NamedRange) -> Stream:
    for stream in _streams(found):
        if (stream.topic, stream.partition) == (piece.topic, piece.partition):
            return stream
    raise FatalError(
        f"{piece}: the pipeline follows no such partition",
        next_step="look at its streams: tideline streams",
        entry="no-such-stream",
    )


def _streams(found: surveying.Survey) -> list[Stream]:
    """Return all streams that the pipeline follows, stopped ones included."""
    return [
        *(stream for stream, _, _ in found.ready.values()),
        *(stream for stream, _ in found.comparison.inconsistent),
        *found.comparison.stopped,
    ]


def _check_skip(ledger: Ledger, found: surveying.Survey, stream: Stream, piece: NamedRange) -> None:
    problems = [
        f"{owner.offsets} is loaded by batch {owner.batch_id}"
        for owner in decisions.owners(ledger, [(stream.stream_id, piece.offsets)])
        if owner.batch_id is not None
    ]
    if piece.offsets.start < stream.start_offset:
        problems.append(f"the stream begins at {stream.start_offset}: offsets before it are not loaded anyway")
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
    ledger: Ledger,
    broker: Broker,
    pipeline: Pipeline,
    topic: str,
    partition: int | None,
    *,
    reason: str,
    dry_run: bool = False,
) -> list[str]:
    """Resume streams of a topic that stopped because offsets are gone.

    If retention deleted unread offsets, exactly these become a `lost` hole. If the log was truncated, its stream continues once the log has grown
    past the head: no offset is read twice, and only a replay loads the records that are before the head now. The same holds if the log has grown past
    the head already. If the cause no longer exists, the stream continues without a change. With `dry_run`, nothing is changed.

    Returns:
        One line for each stream, with the decision.

    Raises:
        FatalError: No such stream is stopped, the topic is another incarnation, or the reason is blank.
        RetryableError: The broker or the ledger did not answer.
    """

    def decide(seals: Seals) -> list[str]:
        with deciding(ledger, pipeline.name, reason, dry_run=dry_run) as now:
            found = surveying.survey(ledger, broker, pipeline, now)
            decisions.set_reason(ledger, reason)
            stopped = [s for s, problem in found.comparison.inconsistent if not is_of_growth(problem)]
            stopped += [s for s in found.comparison.stopped if not is_of_growth(s.stopped_because)]
            chosen = [s for s in stopped if s.topic == topic and partition in {None, s.partition}]
            if not chosen:
                wanted = topic if partition is None else f"{topic}/{partition}"
                raise FatalError(
                    f"{pipeline.name}: no stream of {wanted} is stopped because of a loss",
                    next_step=f"look at them: tideline streams {pipeline.name}",
                    entry="nothing-to-decide",
                )
            others = truncation.replaced(broker, chosen, found.topics)
            return [
                _accept(ledger, pipeline.name, found, stream, reason=reason, seals=seals)
                + _replay_hint(pipeline.name, stream, others)
                for stream in chosen
            ]

    return settling.sealed(ledger, decide, pipeline=pipeline, dry_run=dry_run)


def _replay_hint(pipeline: str, stream: Stream, others: Mapping[int, OffsetRange]) -> str:
    """Return how to load offsets of the stream that hold other records than before. Empty if there are none."""
    if stream.stream_id not in others:
        return ""
    piece = f"{stream.label} {others[stream.stream_id]}"
    return (
        f"; {piece} holds other records than before, and the rows loaded from it stay: to load its present records, "
        f"tideline replay {pipeline} --range '{piece}' --reason ..."
    )


def _accept(
    ledger: Ledger, pipeline: str, found: surveying.Survey, stream: Stream, *, reason: str, seals: Seals
) -> str:
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
        abandon_on(ledger, stream, OffsetRange(stream.next_offset, facts.log_start), READING, seals=seals)
    if facts.end < frontier(stream):
        abandon_on(ledger, stream, OffsetRange(facts.end, LAST), READING, seals=seals)
    current = next(s for s in reservations.streams(ledger, pipeline) if s.stream_id == stream.stream_id)
    gone = lost(current, facts)
    for piece in gone:
        decisions.leave_hole(ledger, stream, piece, "lost", reason=reason)
    reached = frontier(current)
    cut = facts.end < reached
    decisions.resume(ledger, stream, accepted_end=facts.end if cut else None, leader_epoch=facts.leader_epoch)
    if gone:
        return f"{stream.label}: {', '.join(map(str, gone))} recorded as lost; goes on at {facts.log_start}"
    if cut:
        return f"{stream.label}: the log ends at {facts.end}; goes on at {reached} once the log has passed it"
    return f"{stream.label}: nothing is missing now; goes on at {current.next_offset}"


def abandon_on(
    ledger: Ledger, stream: Stream, offsets: OffsetRange, kinds: Iterable[BatchKind] = _RESERVING, *, seals: Seals
) -> list[int]:
    """Abandon the open batches of these kinds that hold any of these offsets of the stream, and return them."""
    batch_ids = decisions.open_on(ledger, stream, offsets, kinds)
    for batch_id in batch_ids:
        abandoning.abandon(ledger, batch_id, seals=seals)
    return batch_ids


_OPEN = {BatchState.PLANNED, BatchState.WRITING, BatchState.FAILED}


def retry(ledger: Ledger, batch_id: int, *, reason: str, dry_run: bool = False) -> str:
    """Record that an operator wants a batch to be written, and return its pipeline: a run of its DAG that loads `a batch` can write it.

    Nothing but the history changes, and with `dry_run` not even that. The next attempt that claims the batch writes the ranges that the batch has.

    Raises:
        FatalError: There is no such batch, it is not open, or the reason is blank.
    """
    if not reason.strip():
        raise FatalError(
            "a retry needs a reason, found none: it is stored in the history",
            next_step="say why: --reason '...'",
            entry="no-reason",
        )
    with ledger.transaction():
        batch = attempts.find(ledger, batch_id)
        if batch is None:
            raise FatalError(
                f"batch {batch_id} is not in the ledger",
                next_step="look its number up: tideline batches PIPELINE",
                entry="no-such-batch",
            )
        if batch["state"] not in _OPEN:
            raise FatalError(
                f"batch {batch_id} is {batch['state']}: there is nothing left to write",
                next_step=_to_load_again(batch["pipeline"], batch_id, stateful=batch["stateful"]),
                entry="batch-is-published",
            )
        if not dry_run:
            decisions.set_reason(ledger, reason)
            events.record(ledger, "retry", pipeline=batch["pipeline"], batch_id=batch_id)
    return str(batch["pipeline"])


def _to_load_again(pipeline: str, batch_id: int, *, stateful: bool) -> str:
    if stateful:
        return f"to fold its records again, and all since: tideline rewind {pipeline} --to-batch N --reason ..., N being the batch before it"
    return f"to load its offsets again: tideline replay {pipeline} --batch {batch_id} --reason ..."
