"""The page of one pipeline. Its frame comes at once; each part asks for itself, so that a slow one holds up no other."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, status
from fastapi.responses import HTMLResponse

from tideline.declaration.pipelines import Pipeline
from tideline.domain.states import BatchKind, BatchState
from tideline.inspection.brokers import declaration
from tideline.ledger import queries
from tideline.ledger.connection import Ledger
from tideline.ledger.queries import Row
from tideline.ledger.sessions import looking
from tideline.reports import doctor as checks
from tideline.reports.overview import row_of
from tideline.web import broker_cache, cells, charts
from tideline.web.access import Decidable, MayDecide, Seen
from tideline.web.needs import Need, of_brokers, of_ledger, worst_first
from tideline.web.rendering import page

router = APIRouter(prefix="/pipelines/{pipeline}")
_CHARTED = 200
_LISTED = 200
_DECIDED = 20
_OPEN = ("planned", "writing", "failed")


@router.get("")
def frame(request: Request, pipeline: Seen, may_decide: MayDecide) -> HTMLResponse:
    """Show the frame of the page, with what needs a person."""
    declared = broker_cache.declared().get(pipeline)
    with looking() as session:
        if declared is None:
            declaration(session, pipeline)  # raises if the ledger does not know it either
        row, needs = _row(session, pipeline)
    kept = broker_cache.kept(pipeline)
    return page(
        request,
        "pipeline.html",
        pipeline=pipeline,
        row=row,
        may_decide=may_decide,
        description=declared.description if isinstance(declared, Pipeline) else None,
        flow=f"{declared.source.described}; output: {declared.sink.described}"
        if isinstance(declared, Pipeline)
        else None,
        stateful=isinstance(declared, Pipeline) and declared.state is not None,
        needs=worst_first(needs + (of_brokers(kept[1]) if kept else [])),
    )


def _row(session: Ledger, pipeline: str) -> tuple[Row, list[Need]]:
    """Return the state of a pipeline, and what the ledger and the declaration say that it needs."""
    declared = broker_cache.declared().get(pipeline)
    known = next((row for row in queries.pipelines(session) if row["pipeline"] == pipeline), None)
    recent = next((row for row in queries.recent(session, n_batches=20) if row["pipeline"] == pipeline), None)
    row = row_of(pipeline, declared, known)
    return row, of_ledger(row, recent, row["broken"])


@router.get("/coverage")
def coverage(request: Request, pipeline: Seen, may_decide: MayDecide, *, ask: bool = False) -> HTMLResponse:
    """Show the coverage map of all partitions: first what the ledger knows, then also what the brokers say, and what needs a person by that."""
    at, found = (
        broker_cache.streams(pipeline) if ask else broker_cache.kept(pipeline) or broker_cache.of_ledger(pipeline)
    )
    with looking() as session:
        # The heads of this moment: a batch may have been advanced since the brokers were asked.
        heads = {row["stream_id"]: row for row in queries.streams(session, pipeline)}
        rows = [_as_now(row, heads) for row in found.rows]
        bars = cells.bars(session, pipeline, rows)
        needs = _row(session, pipeline)[1] + of_brokers(found) if ask else []
        retired = queries.retired(session)
    new = [row for row in found.rows if row["stream_id"] is None]
    return page(
        request,
        "coverage.html",
        pipeline=pipeline,
        at=at,
        asking=not ask,
        may_decide=may_decide,
        needs=worst_first(needs),
        found=found,
        declared=pipeline in broker_cache.declared(),
        retired=pipeline in retired,
        bars=bars,
        new=new,
        meanings=cells.MEANINGS,
    )


def _as_now(row: Row, known: dict[int, Row]) -> Row:
    now = known.get(row["stream_id"])
    return row if now is None else {**row, "head": now["next_offset"], "reserved": now["reserved"]}


@router.get("/partitions/{stream_id}")
def partition(
    request: Request,
    pipeline: Seen,
    stream_id: int,
    start: Annotated[int | None, Query(ge=0)] = None,
    end: Annotated[int | None, Query(ge=0)] = None,
) -> HTMLResponse:
    """Show a stretch of one partition: its cells, and the batches and holes that account for it."""
    _, found = broker_cache.streams(pipeline)
    with looking() as session:
        heads = {row["stream_id"]: row for row in queries.streams(session, pipeline)}
        rows = [_as_now(row, heads) for row in found.rows if row["stream_id"] == stream_id]
        if not rows:
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"pipeline {pipeline} has no such partition")
        (whole,) = cells.bars(session, pipeline, rows)
        start = whole.start if start is None else start
        end = max(start + 1, whole.end if end is None else end)
        bar, parts = cells.stretch(session, pipeline, rows[0], start, end)
        pieces = queries.stretch(session, stream_id, start, end, limit=_LISTED)
    return page(
        request,
        "partition.html",
        pipeline=pipeline,
        bar=bar,
        parts=parts,
        pieces=pieces,
        limit=_LISTED,
        meanings=cells.MEANINGS,
    )


@router.get("/throughput")
def throughput(request: Request, pipeline: Seen, *, ask: bool = False) -> HTMLResponse:
    """Show records and lag of the newest batches as charts, and as a table: first what the ledger knows, then also the lag of now."""
    answer = broker_cache.streams(pipeline) if ask else broker_cache.kept(pipeline)
    with looking() as session:
        rows = queries.throughput(session, pipeline, limit=_CHARTED)
    now = charts.now(rows, answer)
    points = charts.points(rows, now)
    return page(
        request,
        "throughput.html",
        pipeline=pipeline,
        rows=rows,
        now_left=now,
        points=points,
        asking=bool(rows) and not ask,
    )


@router.get("/open")
def open_batches(request: Request, pipeline: Seen) -> HTMLResponse:
    """Show the batches that are not published."""
    with looking() as session:
        rows = [row for state in _OPEN for row in queries.batches(session, pipeline, state=state, limit=_LISTED)]
    return page(request, "batches.html", pipeline=pipeline, rows=rows, empty="no batch is open", limit=None)


@router.get("/batches")
def batches(
    request: Request,
    pipeline: Seen,
    state: BatchState | None = None,
    kind: BatchKind | None = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 20,
) -> HTMLResponse:
    """Show the newest batches."""
    with looking() as session:
        rows = queries.batches(session, pipeline, state=state, kind=kind, limit=limit)
    return page(request, "batches.html", pipeline=pipeline, rows=rows, empty="no batch yet", limit=limit)


@router.get("/decisions")
def decisions(
    request: Request, pipeline: Seen, limit: Annotated[int, Query(ge=1, le=1_000)] = _DECIDED
) -> HTMLResponse:
    """Show the newest events that have a reason: what people have decided, and what followed at once."""
    with looking() as session:
        rows = queries.decisions(session, pipeline, limit=limit)
    return page(request, "decisions.html", pipeline=pipeline, rows=rows, limit=limit)


@router.post("/checks")
def doctor(request: Request, pipeline: Decidable) -> HTMLResponse:
    """Run the checks of `tideline doctor` for this pipeline.

    Only for those who may act, and no address that a link can open: a check commits to a scratch table of the storage, creates the declared
    notifier, asks Airflow as the user of the command line, and names databases, roles and other writers of the same table.
    """
    return page(request, "checks.html", pipeline=pipeline, checks=checks.doctor(pipeline).document["checks"])
