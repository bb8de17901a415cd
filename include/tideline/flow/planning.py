"""plan, dry_run, describe: give a run its batches, or find what it would get. `surveying` and `targets` find what may be planned."""

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import timedelta

from tideline.declaration import Pipeline
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, NewRecords, OneBatch, Ranges, Request, Window
from tideline.domain.states import BatchKind
from tideline.flow import claiming, folding_order, surveying, targets
from tideline.flow.advancing import stopped
from tideline.flow.surveying import PlanCall, Survey
from tideline.kafka.broker import Broker
from tideline.kafka.timeline import HELD, Timeline
from tideline.ledger import abandoning, attempts, claimed_outputs, decisions, heads, reservations
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Open, Run
from tideline.sinks import kinds

log = logging.getLogger(__name__)

DEADLINE_S = 180.0
"""How long a plan asks brokers while it holds its pipeline's lock. Postgres ends its session a minute later at the earliest."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The batches that a run has to write."""

    batch_ids: list[int] = field(default_factory=list)
    """In the order in which to write them; empty if there is nothing to do."""
    notes: list[str] = field(default_factory=list)
    """Why some of the requested offsets, or an open batch, are left alone."""


def plan(
    ledger: Ledger, broker: Broker, pipeline: Pipeline, run: Run, request: Request, *, reason: str | None = None
) -> Plan:
    """Give `run` its batches, reserved in one transaction.

    Invariant: no offset is in two batches that load it, and no offset between a head and a planned end is left out. A crash between two reservations
    or a race between two planners could break it. So the whole plan is one transaction, under the pipeline's lock.

    Args:
        ledger: The ledger's session.
        broker: The pipeline's source.
        pipeline: What to plan for.
        run: The run that needs batches. If it has batches, it gets the same ones again, unless they were abandoned. If it requests certain offsets
            and its batches are all finished, it gets what is still to be loaded of them: Airflow reprocesses a past run under its old id.
        request: What to load.
        reason: The operator's reason, if an operator started the run.

    Raises:
        RetryableError: The broker or the ledger did not answer, or the broker not all questions within `DEADLINE_S`.
        FatalError: The declaration does not fit the cluster, an output is not the pipeline's to write, or requested offsets cannot be read.
        NeedsOperatorError: Streams are stopped and there is nothing else to do, or another cluster answers.
    """
    # Advance what an earlier run published but did not advance: this run may find nothing else to do.
    heads.advance_published(ledger, pipeline.name)
    why = (reason or "").strip() or None
    call = PlanCall(
        ledger=ledger, broker=broker, pipeline=pipeline, run=run, reason=why, outputs=claiming.outputs(pipeline, broker)
    )
    with ledger.transaction():
        planned, found = plan_in_transaction(call, request)
    idle = not planned.batch_ids
    if idle:
        # A run without batches skips its task `advance`: the heads would not pass holes that `latest_wins` has just left until the next run.
        heads.advance_published(ledger, pipeline.name)
    if found is not None:
        planned.notes.extend(report(broker, pipeline.name, found, request=request, idle=idle))
    return planned


def plan_in_transaction(call: PlanCall, request: Request) -> tuple[Plan, Survey | None]:
    """Reserve the batches of a run, within a transaction. Return them with what was found at the broker, None if it was not asked."""
    ledger, pipeline = call.ledger, call.pipeline
    now = reservations.lock_pipeline(ledger, pipeline.name)
    decisions.set_retired(ledger, pipeline.name, retired=False)  # nothing that loads is out of sight
    call = replace(call, broker=call.broker.until(time.monotonic() + DEADLINE_S, asker=f"{pipeline.name}: the plan"))
    claimed_outputs.release(ledger, pipeline.name, call.outputs)
    claimed_outputs.claim(ledger, pipeline.name, call.outputs)
    abandoning.abandon_unreadable(ledger, pipeline.name)
    given = reservations.batches_of_run(ledger, pipeline.name, call.run)
    # Airflow's backfill clears a past run in place. A finished run may find holes that were left since, or a request to replace.
    if given and (isinstance(request, NewRecords) or not reservations.are_finished(ledger, given)):
        return Plan(given), None
    decisions.set_reason(ledger, call.reason or "")
    if isinstance(request, OneBatch) and targets.is_open(ledger, pipeline, request):
        planned, found = Plan([request.batch_id]), None
    elif isinstance(request, KeptRejects):
        planned, found = _rejects(call, request), None
    else:
        if call.latest_wins and isinstance(request, NewRecords):
            abandoning.abandon_unclaimed(ledger, pipeline.name, surveying.LATEST_WINS)
        found = surveying.survey(ledger, call.broker, pipeline, now)
        while abandoning.abandon_unreadable(ledger, pipeline.name):
            # Streams stopped just now, and what was reserved in the same batches is free again. More may stop during the next survey.
            found = surveying.survey(ledger, call.broker, pipeline, now)
        decisions.set_reason(ledger, call.reason or "")
        planned = _load(call, found, request)
    reservations.join_run(ledger, pipeline.name, call.run, planned.batch_ids)
    return planned, found


def _load(call: PlanCall, found: Survey, request: NewRecords | Window | Ranges | OneBatch) -> Plan:
    match request:
        case NewRecords():
            return _new_records(call, found, request)
        case Window():
            return _window(call, found, request)
        case Ranges():
            return _targets(call, found, targets.named(found, request), replace=request.replace)
        case OneBatch():
            wanted = targets.of_batch(call.ledger, found, request)
            return _targets(call, found, wanted, replace=request.replace, supersedes=request.batch_id)


def _new_records(call: PlanCall, found: Survey, request: NewRecords) -> Plan:
    ends = surveying.ends_at(call.broker, found, request.until) if request.until else None
    free = surveying.free_behind_heads(found, ends)
    if call.latest_wins:
        starts = surveying.edges_at(call.broker, found, request.since, behind_heads=True) if request.since else {}
        free = surveying.skip_to_latest(call.ledger, call.pipeline, found, free, starts)
    if call.is_stateful:
        return Plan(folding_order.plan(call, found, free, run_batches=call.pipeline.limits.run_batches))
    opened = reservations.open_batches(call.ledger, call.pipeline.name)
    new = call.reserve(BatchKind.LIVE, found, free, run_batches=call.pipeline.limits.run_batches)
    adopted = [batch.batch_id for batch in opened if batch.for_heads]
    return Plan(adopted + new, [_left_note(batch) for batch in opened if not batch.for_heads])


def _left_note(batch: Open) -> str:
    """Return the note for an open batch of an operator's request: new records do not wait for it, but an operator must find it in the log."""
    return (
        f"batch {batch.batch_id} ({batch.kind}, {batch.state}) is left to {batch.run.dag_id} {batch.run.run_id}, which requested it; "
        f"if that run has ended: tideline retry {batch.batch_id} --reason ..., or tideline abandon {batch.batch_id} --reason ..."
    )


def _window(call: PlanCall, found: Survey, request: Window) -> Plan:
    """Load from the heads to the window's end, and what else of the window is missing. So the order of several windows does not matter."""
    starts = surveying.edges_at(call.broker, found, request.start)
    ends = surveying.edges_at(call.broker, found, request.end)
    live = [] if call.latest_wins else _up_to(call, found, ends)
    wanted = []
    for stream_id, (_, topic, facts) in found.ready.items():
        place = topic.topic, facts.partition
        if starts[place] < ends[place]:
            wanted.append((stream_id, OffsetRange(starts[place], ends[place])))
    past = _targets(call, found, wanted, replace=request.replace, given=live)
    return Plan(past.batch_ids + live, past.notes)


def _up_to(call: PlanCall, found: Survey, ends: surveying.Ends) -> list[int]:
    """Reserve what is free between the heads and `ends`, and return these batches with the open ones after the heads.

    Heads pass published batches only in order: without the batches before its own, a run could not finish by itself.
    """
    behind = surveying.free_behind_heads(found, ends)
    if call.is_stateful:
        return folding_order.plan(call, found, behind, run_batches=None) if behind else []
    new = call.reserve(BatchKind.LIVE, found, behind)
    opened = decisions.open_ahead(call.ledger, [stream for stream, _, _ in found.ready.values()]) if behind else []
    return sorted({*opened, *new})


def _targets(
    call: PlanCall,
    found: Survey,
    wanted: targets.Wanted,
    *,
    replace: bool,
    supersedes: int | None = None,
    given: Collection[int] = (),
) -> Plan:
    """Reserve backfills and replays of the wanted ranges. Batches in `given`, which the run has anyway, need no note."""
    shares = targets.share(
        call.ledger, found, wanted, replace=replace, outside=kinds.of(call.pipeline).is_outside, given=given
    )
    folding_order.check_targets(call.pipeline, found, shares)
    targets.check_held(found, shares)
    targets.check_replay(call.pipeline, shares)
    batch_ids = call.reserve(BatchKind.BACKFILL, found, shares.missing)
    batch_ids += call.reserve(BatchKind.REPLAY, found, shares.loaded, supersedes=supersedes)
    return Plan(batch_ids, shares.notes)


def _rejects(call: PlanCall, request: KeptRejects) -> Plan:
    if call.is_stateful:
        raise folding_order.refused(call.pipeline.name, "rejects")
    wanted = targets.rejects(call.ledger, call.pipeline, request)
    if not wanted:
        return Plan([], ["no rejects match the request"])
    wanted, notes = targets.without_held(call.ledger, wanted, outside=kinds.of(call.pipeline).is_outside)
    batch_ids = reservations.reserve(
        call.ledger,
        call.pipeline.name,
        call.run,
        BatchKind.REDRIVE,
        wanted,
        reason=call.reason,
        outside=kinds.of(call.pipeline).is_outside,
    )
    reservations.take_rejects(call.ledger, batch_ids, of_batch=request.batch_id, reason_like=request.reason_like)
    return Plan(batch_ids, notes)


def report(broker: Broker, pipeline: str, found: Survey, *, request: Request, idle: bool) -> list[str]:
    """Log what an operator should know of the streams, and return what belongs to the notes of a plan.

    Args:
        broker: The source.
        pipeline: The name of the pipeline.
        found: The streams.
        request: What was requested. Stopped streams fail a request for new records or a window, if there is nothing else to do.
        idle: Whether there is nothing else to do.

    Raises:
        NeedsOperatorError: Streams are stopped, as above.
    """
    notes = warn_of_retention(broker, found)
    report_stopped(pipeline, found, alone=idle and isinstance(request, NewRecords | Window))
    return notes


def report_stopped(pipeline: str, found: Survey, *, alone: bool) -> None:
    """Log the stopped streams. If they are `alone`, raise instead: the run has nothing else to do.

    Raises:
        NeedsOperatorError: Streams are stopped, and they are `alone`.
    """
    streams = [(stream.label, stream.next_offset, problem) for stream, problem in found.comparison.inconsistent]
    streams += [(stream.label, stream.next_offset, str(stream.stopped_because)) for stream in found.comparison.stopped]
    if streams and alone:
        raise stopped(pipeline, streams)
    for label, head, problem in streams:
        log.error("%s: stopped stream %s at offset %s: %s", pipeline, label, head, problem)


def warn_of_retention(broker: Broker, found: Survey) -> list[str]:
    """Log a warning of each stream that may soon lose records that were not read. Return those of hanging transactions, as notes of the plan.

    Records deleted unread are lost. A transaction that hangs keeps records from being read, and not from being deleted.
    """
    timeline = Timeline(broker, found.now)
    held = timeline.held(found.topics)
    half = {topic.topic: timedelta(milliseconds=topic.retention_ms / 2) for topic in found.topics if topic.retention_ms}
    # Offsets that retention has deleted already are left out: other checks report them.
    unread = {
        (topic.topic, facts.partition): max(stream.next_offset, facts.log_start)
        for stream, topic, facts in found.ready.values()
        if topic.topic in half and (stream.next_offset < facts.end or (topic.topic, facts.partition) in held)
    }
    times = {place: found.now - half[place[0]] for place in unread}
    for place in sorted(timeline.older_unread(unread, times, held)):
        log.warning(
            "%s/%s: the oldest unread record, offset %s, has used more than half of the topic's retention of %s: "
            "load it soon, or raise retention.ms",
            *place,
            unread[place],
            2 * half[place[0]],
        )
    notes = [
        f"{topic.topic}/{facts.partition}: a transaction has been open for more than {HELD // timedelta(minutes=1)} minutes at offset {facts.end}: "
        f"the {facts.n_unstable} offsets behind it cannot be read, and retention deletes them all the same. "
        "Find its producer, and abort it: docs/runbook.md#transaction-hangs"
        for _, topic, facts in found.ready.values()
        if (topic.topic, facts.partition) in held
    ]
    for note in notes:
        log.warning("%s", note)
    return notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A batch that `plan` would reserve."""

    kind: BatchKind
    ranges: list[NamedRange]


def dry_run(ledger: Ledger, broker: Broker, pipeline: Pipeline, request: Request) -> tuple[list[Draft], list[str]]:
    """Return what `plan` would reserve now, and its notes, without reserving it. Raise what `plan` raises."""
    call = PlanCall(
        ledger=ledger,
        broker=broker,
        pipeline=pipeline,
        run=Run(dag_id="dry run", run_id="dry run"),
        reason=None,
        outputs=claiming.outputs(pipeline, broker),
    )
    with ledger.transaction(), ledger.trial():
        # As an advance and then a plan would, with one lock: a walk without it would deadlock with another process's plan.
        reservations.lock_pipeline(ledger, pipeline.name)
        heads.walk(ledger, pipeline.name)
        planned, found = plan_in_transaction(call, request)
        drafts = [_drafted(ledger, batch_id) for batch_id in planned.batch_ids]
    if found is not None:
        planned.notes.extend(report(broker, pipeline.name, found, request=request, idle=not planned.batch_ids))
    return drafts, planned.notes


def _drafted(ledger: Ledger, batch_id: int) -> Draft:
    ranges = [NamedRange(piece.topic, piece.partition, piece.offsets) for piece in attempts.ranges(ledger, batch_id)]
    return Draft(kind=attempts.kind_of(ledger, batch_id), ranges=ranges)


def describe(ledger: Ledger, batch_ids: list[int]) -> list[str]:
    """Return one line for each batch: its kind and its ranges, in the notation that a request for ranges accepts."""
    with ledger.transaction():
        return [
            f"batch {batch_id} ({attempts.kind_of(ledger, batch_id).value}): "
            + ", ".join(
                str(NamedRange(piece.topic, piece.partition, piece.offsets))
                for piece in attempts.ranges(ledger, batch_id)
            )
            for batch_id in batch_ids
        ]
