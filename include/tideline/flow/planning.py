"""plan: give a run its batches. What may be planned is found in `candidates` and `targets`."""

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, OneBatch, Ranges, Rejects, Request, Window
from tideline.domain.states import BatchKind, BatchState
from tideline.errors import FatalError
from tideline.flow import candidates, targets
from tideline.flow.advancing import stopped
from tideline.flow.candidates import Survey
from tideline.kafka import Broker
from tideline.ledger import attempts, decisions, heads, reservations
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline.pipelines import Pipeline

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run has to do."""

    batch_ids: list[int] = field(default_factory=list)
    """In the order in which to write them; none when there is nothing to do."""
    notes: list[str] = field(default_factory=list)
    """Why something that was asked for is left alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A batch as it would be planned."""

    kind: BatchKind
    ranges: list[NamedRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Who asks for what, within the plan's transaction."""

    ledger: Ledger
    broker: Broker
    pipeline: Pipeline
    run: Run
    reason: str | None

    def reserve(
        self, kind: BatchKind, found: Survey, free: candidates.Free, *, supersedes: int | None = None
    ) -> list[int]:
        """All of the free ranges, as batches of one kind."""
        run_batches = self.pipeline.limits.run_batches if kind is BatchKind.LIVE else None
        wanted = candidates.batches(self.ledger, self.pipeline, found, free, run_batches=run_batches)
        return reservations.reserve(
            self.ledger, self.pipeline.name, self.run, kind, wanted, reason=self.reason, supersedes=supersedes
        )


def plan(
    ledger: Ledger, broker: Broker, pipeline: Pipeline, run: Run, request: Request, *, reason: str | None = None
) -> Plan:
    """Give `run` its batches, reserved in one transaction.

    The law: no offset is ever in two batches that load it, and none between a head and a planned end is in no batch. The crash that would break
    it is one between two reservations, and the race one between two planners: so all is one transaction, under the pipeline's lock.

    Args:
        ledger: The ledger's session.
        broker: The pipeline's source.
        pipeline: What to plan for.
        run: Who asks. Once it has batches, it gets the same ones again, unless they were abandoned. A run that asks for certain offsets and whose
            batches are all through is given what is still to be done of them: Airflow reprocesses a past run under its old id.
        request: What to load.
        reason: Why, where a person asks.

    Raises:
        RetryableError: Broker or ledger did not answer.
        FatalError: The declaration does not fit the cluster, or what was asked for cannot be read.
        NeedsOperatorError: Streams are stopped and there is nothing else to do, or another cluster answers.
    """
    # What an earlier run published and did not get to advance is finished here, in case this run finds nothing else to do.
    heads.advance_published(ledger, pipeline.name)
    asked = _Asked(ledger=ledger, broker=broker, pipeline=pipeline, run=run, reason=reason)
    with ledger.transaction():
        planned, found = _plan(asked, request)
    if found is not None:
        _report_stopped(pipeline, found, planned)
        _warn_of_retention(broker, found)
    return planned


def dry_run(ledger: Ledger, broker: Broker, pipeline: Pipeline, request: Request) -> tuple[list[Draft], list[str]]:
    """What `plan` would reserve now, and its notes; nothing is kept. Raises what `plan` raises."""
    asked = _Asked(
        ledger=ledger, broker=broker, pipeline=pipeline, run=Run(dag_id="dry run", run_id="dry run"), reason=None
    )
    drafts: list[Draft] = []
    notes: list[str] = []
    try:
        with ledger.transaction():
            heads.walk(ledger, pipeline.name)
            planned, _ = _plan(asked, request)
            notes += planned.notes
            drafts += [_drafted(ledger, batch_id) for batch_id in planned.batch_ids]
            raise _UndoError  # noqa: TRY301 - the way out of a transaction that must not be kept
    except _UndoError:
        pass
    return drafts, notes


class _UndoError(Exception):
    """Leaves a transaction without keeping it."""


def _drafted(ledger: Ledger, batch_id: int) -> Draft:
    kind = ledger.rows("find_batch", batch_id=batch_id)[0]["kind"]
    ranges = [NamedRange(piece.topic, piece.partition, piece.offsets) for piece in attempts.ranges(ledger, batch_id)]
    return Draft(kind=BatchKind(kind), ranges=ranges)


def _plan(asked: _Asked, request: Request) -> tuple[Plan, Survey | None]:
    ledger, pipeline = asked.ledger, asked.pipeline
    reservations.lock_pipeline(ledger, pipeline.name)
    decisions.abandon_unreadable(ledger, pipeline.name)
    given = reservations.batches_of_run(ledger, pipeline.name, asked.run)
    # Airflow's backfill clears a past run in place: one that is through may find holes that were left since, or be told to replace.
    if given and (isinstance(request, NewRecords) or not reservations.are_through(ledger, given)):
        return Plan(given), None
    decisions.set_reason(ledger, asked.reason or "")
    if isinstance(request, OneBatch) and _is_open(asked, request):
        planned, found = Plan([request.batch_id]), None
    elif isinstance(request, Rejects):
        planned, found = _rejects(asked, request), None
    else:
        found = candidates.survey(ledger, asked.broker, pipeline)
        # Streams may have stopped just now: what was planned with them is planned again without them.
        decisions.abandon_unreadable(ledger, pipeline.name)
        decisions.set_reason(ledger, asked.reason or "")
        planned = _load(asked, found, request)
    reservations.join_run(ledger, pipeline.name, asked.run, planned.batch_ids)
    return planned, found


def _is_open(asked: _Asked, request: OneBatch) -> bool:
    batch = asked.ledger.row("find_batch", batch_id=request.batch_id)
    if batch is None or batch["pipeline"] != asked.pipeline.name:
        found = f"it belongs to {batch['pipeline']}" if batch else "the ledger does not have it"
        raise FatalError(
            f"{asked.pipeline.name}: expected batch {request.batch_id} to be one of this pipeline's, but {found}",
            next_step=f"look for it: tideline batches {asked.pipeline.name}",
            entry="no-such-batch",
        )
    if batch["kind"] == BatchKind.REDRIVE and batch["state"] not in {"planned", "writing", "failed"}:
        raise FatalError(
            f"batch {request.batch_id} re-drove rejects: it has no offsets of its own to load again",
            next_step="replay the batch that had rejected them, or re-drive what is still rejected",
            entry="no-such-batch",
        )
    return BatchState(batch["state"]) in {BatchState.PLANNED, BatchState.WRITING, BatchState.FAILED}


def _load(asked: _Asked, found: Survey, request: NewRecords | Window | Ranges | OneBatch) -> Plan:
    match request:
        case NewRecords():
            return _new_records(asked, found, request)
        case Window():
            return _window(asked, found, request)
        case Ranges():
            return _targets(asked, found, targets.named(found, request), replace=request.replace)
        case OneBatch():
            wanted = targets.of_batch(asked.ledger, found, request)
            return _targets(asked, found, wanted, replace=request.replace, supersedes=request.batch_id)


def _new_records(asked: _Asked, found: Survey, request: NewRecords) -> Plan:
    ends = candidates.offsets_at(asked.broker, found, request.until) if request.until else None
    if asked.pipeline.source.delivery == "latest_wins":
        return _latest(asked, request, ends)
    free = candidates.free_behind_heads(found, ends)
    opened = reservations.open_batches(asked.ledger, asked.pipeline.name)
    return Plan(opened + asked.reserve(BatchKind.LIVE, found, free))


def _latest(asked: _Asked, request: NewRecords, ends: candidates.Ends | None) -> Plan:
    """Only the newest records: what earlier runs did not get to is given up, as far as nobody is writing it."""
    ledger, name = asked.ledger, asked.pipeline.name
    decisions.abandon_unwritten(ledger, name, candidates.LATEST_WINS)
    found = candidates.survey(ledger, asked.broker, asked.pipeline)  # what they had reserved is free again
    free = candidates.free_behind_heads(found, ends)
    starts = candidates.offsets_at(asked.broker, found, request.since) if request.since else {}
    kept = candidates.skip_to_latest(ledger, asked.pipeline, found, free, starts)
    return Plan(reservations.open_batches(ledger, name) + asked.reserve(BatchKind.LIVE, found, kept))


def _window(asked: _Asked, found: Survey, request: Window) -> Plan:
    """Below the heads what is missing, and everything from the heads to the window's end: then the order of several windows does not matter."""
    starts = candidates.offsets_at(asked.broker, found, request.start)
    ends = candidates.offsets_at(asked.broker, found, request.end)
    latest = asked.pipeline.source.delivery == "latest_wins"  # it never works through what lies behind
    wanted = []
    for stream_id, (stream, topic, facts) in found.ready.items():
        place = topic.topic, facts.partition
        end = ends[place] if latest else min(ends[place], stream.next_offset)
        if starts[place] < end:
            wanted.append((stream_id, OffsetRange(starts[place], end)))
    new = [] if latest else asked.reserve(BatchKind.LIVE, found, candidates.free_behind_heads(found, ends))
    past = _targets(asked, found, wanted, replace=request.replace)
    # Heads only pass what is published in order: without the batches before its own this run could not end by itself.
    opened = reservations.open_batches(asked.ledger, asked.pipeline.name, kind=BatchKind.LIVE) if new else []
    return Plan(past.batch_ids + sorted({*opened, *new}), past.notes)


def _targets(
    asked: _Asked, found: Survey, wanted: targets.Wanted, *, replace: bool, supersedes: int | None = None
) -> Plan:
    shares = targets.share(asked.ledger, found, wanted, replace=replace)
    batch_ids = asked.reserve(BatchKind.BACKFILL, found, shares.missing)
    batch_ids += asked.reserve(BatchKind.REPLAY, found, shares.loaded, supersedes=supersedes)
    return Plan(batch_ids, shares.notes)


def _rejects(asked: _Asked, request: Rejects) -> Plan:
    batch_ids: list[int] = []
    for chosen in targets.rejects(asked.ledger, asked.pipeline, request):
        wanted = [targets.redriven(chosen)]
        batch_ids += reservations.reserve(
            asked.ledger, asked.pipeline.name, asked.run, BatchKind.REDRIVE, wanted, reason=asked.reason
        )
        reservations.take_rejects(asked.ledger, batch_ids[-1], chosen)
    return Plan(batch_ids, [] if batch_ids else ["no rejects fit what was asked for"])


def _report_stopped(pipeline: Pipeline, found: Survey, planned: Plan) -> None:
    streams = [(stream.label, stream.next_offset, problem) for stream, problem in found.comparison.sick]
    streams += [(stream.label, stream.next_offset, str(stream.stopped_because)) for stream in found.comparison.stopped]
    if streams and not planned.batch_ids:
        raise stopped(pipeline.name, streams)
    for label, head, problem in streams:
        log.error("%s: stopped stream %s at offset %s: %s", pipeline.name, label, head, problem)


def _warn_of_retention(broker: Broker, found: Survey) -> None:
    """Say in time that the oldest unread record has used more than half of its topic's retention: what is deleted unread is lost."""
    now = datetime.now(UTC)
    for topic in found.topics:
        # What is planned and gone is another matter, and told elsewhere.
        unread = {
            facts.partition: max(stream.next_offset, facts.log_start)
            for stream, of, facts in found.ready.values()
            if of.topic == topic.topic and stream.next_offset < facts.end
        }
        if topic.retention_ms is None or not unread:
            continue
        half = timedelta(milliseconds=topic.retention_ms / 2)
        for partition, offset in broker.offsets_at(topic.topic, unread, now - half).items():
            if offset > unread[partition]:
                log.warning(
                    "%s/%s: the oldest unread record, offset %s, has used more than half of the topic's retention of %s: "
                    "load it soon, or raise retention.ms",
                    topic.topic,
                    partition,
                    unread[partition],
                    timedelta(milliseconds=topic.retention_ms),
                )
