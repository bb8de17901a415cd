"""Rejected records: counted by reason, with samples. Their bytes are shown only to those who may edit the pipeline's DAG."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from tideline.ledger import queries
from tideline.ledger.sessions import looking
from tideline.reports.rejects import shown
from tideline.web.access import Edits, MayDecide, Seen
from tideline.web.rendering import page

router = APIRouter(prefix="/pipelines/{pipeline}")
_REASONS, _SAMPLES = 50, 50


@router.get("/reasons")
def reasons(request: Request, pipeline: Seen) -> HTMLResponse:
    """Count the rejected records of each reason."""
    with looking() as session:
        rows = queries.reject_reasons(session, pipeline, limit=_REASONS)
    return page(request, "reasons.html", pipeline=pipeline, rows=rows, limit=_REASONS)


@router.get("/rejects")
def rejects(  # noqa: PLR0917 - FastAPI passes them by name
    request: Request,
    pipeline: Seen,
    edits: Edits,
    may_decide: MayDecide,
    reason: Annotated[str | None, Query(max_length=2_000)] = None,
    batch: Annotated[int | None, Query(ge=1)] = None,
) -> HTMLResponse:
    """Show the newest rejected records."""
    with looking() as session:
        rows = queries.rejects(session, pipeline, batch_id=batch, reason_like=reason or None, limit=_SAMPLES)
    for row in rows:
        key, value = row.pop("key"), row.pop("value")
        row.pop("headers")
        row["shown"] = {"key": shown(key), "value": shown(value)} if edits else None
    return page(
        request,
        "rejects.html",
        pipeline=pipeline,
        rows=rows,
        edits=edits,
        may_decide=may_decide,
        reason=reason or "",
        batch=batch,
        limit=_SAMPLES,
    )
