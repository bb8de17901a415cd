"""The page of one batch, and the page of the batches of a DAG run, to which the task `write` links."""

from fastapi import APIRouter, HTTPException, Request, status
from fastapi.responses import HTMLResponse

from tideline.ledger import queries
from tideline.ledger.queries import Row
from tideline.ledger.sessions import looking
from tideline.reports.history import folded
from tideline.web.access import MayDecide, Seen, User, visible
from tideline.web.rendering import page

router = APIRouter()


@router.get("/pipelines/{pipeline}/batches/{batch_id}")
def batch(request: Request, pipeline: Seen, may_decide: MayDecide, batch_id: int) -> HTMLResponse:
    """Show a batch: ranges, counts, attempts, schemas, undeclared fields, events."""
    found = of_pipeline(pipeline, batch_id)
    mine, owned = (
        {(row["topic"], row["partition"], row["start_offset"], row["end_offset"]) for row in found[part]}
        for part in ("ranges", "owns")
    )
    return page(
        request,
        "batch.html",
        pipeline=pipeline,
        batch=found,
        may_decide=may_decide,
        owns_all=mine == owned,
        folded=folded(found) if found["undo"] else None,
    )


def of_pipeline(pipeline: str, batch_id: int) -> Row:
    """Return a batch of a pipeline.

    Raises:
        HTTPException: It is of another pipeline, whose rights were not checked; or there is none.
    """
    with looking() as session:
        found = queries.batch(session, batch_id)
    if found is None or found["pipeline"] != pipeline:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"pipeline {pipeline} has no batch {batch_id}")
    return found


@router.get("/runs/{dag_id}/{run_id:path}")
def run(request: Request, user: User, dag_id: str, run_id: str) -> HTMLResponse:
    """Show the batches that a DAG run was given, of the pipelines that the user may see."""
    with looking() as session:
        rows = queries.run(session, dag_id, run_id)
    shown = visible(user, {row["pipeline"] for row in rows})
    rows = [row for row in rows if row["pipeline"] in shown]
    return page(request, "run.html", dag_id=dag_id, run_id=run_id, rows=rows)
