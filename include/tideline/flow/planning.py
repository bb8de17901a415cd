"""plan: give a run its batches. What may be planned is found in `candidates` and `targets`."""

from collections.abc import Collection
from dataclasses import dataclass, field

from tideline.declaration.pipelines import Pipeline
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, OneBatch, Ranges, Rejects, Request, Window
from tideline.domain.states import BatchKind
from tideline.flow import candidates, retention, targets
from tideline.flow.candidates import Survey
from tideline.kafka.broker import Broker
from tideline.ledger import attempts, decisions, heads, output_tables, reservations
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Open, Run


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

    @property
    def latest_wins(self) -> bool:
        """Whether the pipeline wants the newest records and never works through what lies behind."""
        return self.pipeline.source.delivery == "latest_wins"

    def reserve(
        self,
        kind: BatchKind,
        found: Survey,
        free: candidates.Free,
        *,
        run_batches: int | None = None,
        supersedes: int | None = None,
    ) -> list[int]:
        """The free ranges as batches of one kind: all of them, or as many as `run_batches` says."""
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
        FatalError: The declaration does not fit the cluster, another pipeline has the declared table, or what was asked for cannot be read.
        NeedsOperatorError: Streams are stopped and there is nothing else to do, or another cluster answers.
    """
    # What an earlier run published and did not get to advance is finished here, in case this run finds nothing else to do.
    heads.advance_published(ledger, pipeline.name)
    why = (reason or "").strip() or None
    asked = _Asked(ledger=ledger, broker=broker, pipeline=pipeline, run=run, reason=why)
    with ledger.transaction():
        planned, found = _plan(asked, request)
    if not planned.batch_ids:
        # Nobody advances after a run that is skipped: heads would stand before the holes that its policy has just left, until the next run.
        heads.advance_published(ledger, pipeline.name)
    if found is not None:
        _report(pipeline, request, planned, found)
        retention.warn_of_retention(broker, found)
    return planned


def _report(pipeline: Pipeline, request: Request, planned: Plan, found: Survey) -> None:
    """Report only the streams that a request for certain ranges or a batch concerns: the others do not stop it."""
    everything = isinstance(request, NewRecords | Window)
    retention.report_stopped(pipeline.name, found, alone=everything and not planned.batch_ids)


def dry_run(ledger: Ledger, broker: Broker, pipeline: Pipeline, request: Request) -> tuple[list[Draft], list[str]]:
    """What `plan` would reserve now, and its notes; nothing is kept. Raises what `plan` raises."""
    asked = _Asked(
        ledger=ledger, broker=broker, pipeline=pipeline, run=Run(dag_id="dry run", run_id="dry run"), reason=None
    )
    try:
        with ledger.transaction():
            # In the order of a plan: one that has its turn would wait for the heads, and these for its turn.
            reservations.lock_pipeline(ledger, pipeline.name)
            heads.walk(ledger, pipeline.name)
            planned, found = _plan(asked, request)
            drafts = [_drafted(ledger, batch_id) for batch_id in planned.batch_ids]
            raise _UndoError  # noqa: TRY301 - the way out of a transaction that must not be kept
    except _UndoError:
        pass
    if found is not None:
        _report(pipeline, request, planned, found)
    return drafts, planned.notes


class _UndoError(Exception):
    """Leaves a transaction without keeping it."""


def _drafted(ledger: Ledger, batch_id: int) -> Draft:
    kind = ledger.rows("find_batch", batch_id=batch_id)[0]["kind"]
    ranges = [NamedRange(piece.topic, piece.partition, piece.offsets) for piece in attempts.ranges(ledger, batch_id)]
    return Draft(kind=BatchKind(kind), ranges=ranges)


def _plan(asked: _Asked, request: Request) -> tuple[Plan, Survey | None]:
    ledger, pipeline = asked.ledger, asked.pipeline
    now = reservations.lock_pipeline(ledger, pipeline.name)
    output_tables.claim(ledger, pipeline.name, pipeline.sink.table, shared=pipeline.sink.shared)
    decisions.abandon_unreadable(ledger, pipeline.name)
    given = reservations.batches_of_run(ledger, pipeline.name, asked.run)
    # Airflow's backfill clears a past run in place: one that is finished may find holes that were left since, or be told to replace.
    if given and (isinstance(request, NewRecords) or not reservations.are_through(ledger, given)):
        return Plan(given), None
    decisions.set_reason(ledger, asked.reason or "")
    if isinstance(request, OneBatch) and targets.is_open(ledger, pipeline, request):
        planned, found = Plan([request.batch_id]), None
    elif isinstance(request, Rejects):
        planned, found = _rejects(asked, request), None
    else:
        if asked.latest_wins and isinstance(request, NewRecords):
            decisions.abandon_unclaimed(ledger, pipeline.name, candidates.LATEST_WINS)
        found = candidates.survey(ledger, asked.broker, pipeline, now)
        while decisions.abandon_unreadable(ledger, pipeline.name):
            # Streams have stopped just now, and what was reserved together with them is free again. More may stop while it is looked at.
            found = candidates.survey(ledger, asked.broker, pipeline, now)
        decisions.set_reason(ledger, asked.reason or "")
        planned = _load(asked, found, request)
    reservations.join_run(ledger, pipeline.name, asked.run, planned.batch_ids)
    return planned, found


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
    ends = candidates.ends_at(asked.broker, found, request.until) if request.until else None
    free = candidates.free_behind_heads(found, ends)
    if asked.latest_wins:
        starts = candidates.edges_at(asked.broker, found, request.since, behind_heads=True) if request.since else {}
        free = candidates.skip_to_latest(asked.ledger, asked.pipeline, found, free, starts)
    opened = reservations.open_batches(asked.ledger, asked.pipeline.name)
    new = asked.reserve(BatchKind.LIVE, found, free, run_batches=asked.pipeline.limits.run_batches)
    adopted = [batch.batch_id for batch in opened if batch.for_heads]
    return Plan(adopted + new, [_waiting(batch) for batch in opened if not batch.for_heads])


def _waiting(batch: Open) -> str:
    """New records are never held up by what a person has asked for, and a person who looks for it should find it named."""
    return (
        f"batch {batch.batch_id} ({batch.kind}, {batch.state}) is left to {batch.run.dag_id} {batch.run.run_id}, which asked for it; "
        f"if that run has ended: tideline retry {batch.batch_id} --reason ..., or tideline abandon {batch.batch_id} --reason ..."
    )


def _window(asked: _Asked, found: Survey, request: Window) -> Plan:
    """Everything from the heads to the window's end, and what else of the window is missing: then the order of several windows does not matter."""
    starts = candidates.edges_at(asked.broker, found, request.start)
    ends = candidates.edges_at(asked.broker, found, request.end)
    live = [] if asked.latest_wins else _up_to(asked, found, ends)
    wanted = []
    for stream_id, (_, topic, facts) in found.ready.items():
        place = topic.topic, facts.partition
        if starts[place] < ends[place]:
            wanted.append((stream_id, OffsetRange(starts[place], ends[place])))
    past = _targets(asked, found, wanted, replace=request.replace, given=live)
    return Plan(past.batch_ids + live, past.notes)


def _up_to(asked: _Asked, found: Survey, ends: candidates.Ends) -> list[int]:
    """What lies between the heads and certain ends, with the open batches that stand there.

    Heads only pass what is published in order: without the batches before its own a run could not end by itself.
    """
    behind = candidates.free_behind_heads(found, ends)
    new = asked.reserve(BatchKind.LIVE, found, behind)
    opened = decisions.open_ahead(asked.ledger, [stream for stream, _, _ in found.ready.values()]) if behind else []
    return sorted({*opened, *new})


def _targets(
    asked: _Asked,
    found: Survey,
    wanted: targets.Wanted,
    *,
    replace: bool,
    supersedes: int | None = None,
    given: Collection[int] = (),
) -> Plan:
    """Backfills and replays of what is wanted, but for what the run is `given` anyway."""
    shares = targets.share(asked.ledger, found, wanted, replace=replace, given=given)
    targets.check_held(found, shares)
    batch_ids = asked.reserve(BatchKind.BACKFILL, found, shares.missing)
    batch_ids += asked.reserve(BatchKind.REPLAY, found, shares.loaded, supersedes=supersedes)
    return Plan(batch_ids, shares.notes)


def _rejects(asked: _Asked, request: Rejects) -> Plan:
    wanted = targets.rejects(asked.ledger, asked.pipeline, request)
    if not wanted:
        return Plan([], ["no rejects fit what was asked for"])
    batch_ids = reservations.reserve(
        asked.ledger, asked.pipeline.name, asked.run, BatchKind.REDRIVE, wanted, reason=asked.reason
    )
    reservations.take_rejects(asked.ledger, batch_ids, of_batch=request.batch_id, reason_like=request.reason_like)
    return Plan(batch_ids)
