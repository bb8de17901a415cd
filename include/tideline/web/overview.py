"""The overview: every pipeline, the one that needs a person most first. The ledger's part comes at once, each broker's when it answers."""

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from tideline.cli.pages.overview import row_of
from tideline.declaration.pipelines import Broken
from tideline.errors import RetryableError
from tideline.inspection.session import looking
from tideline.ledger import queries
from tideline.ledger.queries import Row
from tideline.web import answers
from tideline.web.access import Seen, User, visible
from tideline.web.answers import Compared
from tideline.web.needs import Level, of_brokers, of_ledger, worst_first
from tideline.web.rendering import page, roughly

router = APIRouter()
_RECENT_BATCHES = 20


@router.get("/")
def overview(request: Request, user: User) -> HTMLResponse:
    """Show all pipelines whose DAG the user may see."""
    rows = _rows(user)
    n_needing = sum(row["level"] > Level.FINE for row in rows)
    asking = any(row["lag"] is None or row["lag"]["old"] for row in rows)
    return page(request, "overview.html", rows=rows, n_needing=n_needing, asking=asking)


@router.get("/pipelines/{pipeline}/lag")
def lag(request: Request, pipeline: Seen) -> HTMLResponse:
    """Ask the brokers of one pipeline, and show its lag and headroom."""
    at, found = answers.streams(pipeline)
    return page(request, "lag.html", pipeline=pipeline, lag=of_answer(at, found) | {"old": False})


def _rows(user: User) -> list[Row]:
    declared = answers.declared()
    with looking() as session:
        known = {row["pipeline"]: row for row in queries.pipelines(session)}
        recent = {row["pipeline"]: row for row in queries.recent(session, n_batches=_RECENT_BATCHES)}
    shown = visible(user, declared.keys() | known.keys())
    rows = [
        _row(row_of(name, declared.get(name), known.get(name)), declared.get(name), recent.get(name)) for name in shown
    ]
    return sorted(rows, key=lambda row: (-row["severity"], row["pipeline"]))


def _row(row: Row, declared: object, recent: Row | None) -> Row:
    problem = declared.error.problem if isinstance(declared, Broken) else None
    needs = of_ledger(row, recent, problem)
    kept = answers.kept(row["pipeline"])
    lag = of_answer(*kept) if kept else None
    needs = worst_first(needs + (lag["needs"] if lag else []))
    return {
        **row,
        "recent": recent,
        "needs": needs,
        "lag": lag,
        "level": needs[0].level if needs else Level.FINE,
        "severity": needs[0].severity if needs else 0,
    }


def of_answer(at: datetime, found: Compared) -> dict[str, Any]:
    """Return what a row of the overview shows of the brokers' answer."""
    active = [row for row in found.rows if row["state"] != "retired"]
    lags = [row["lag"] for row in active if row["lag"] is not None]
    behind = [age for row in active if (age := row.get("behind_seconds_at_least")) is not None]
    left = [row for row in active if row["headroom_at_least"] is not None]
    scarcest = min(left, key=_scarcity, default=None)
    return {
        "at": at,
        "old": answers.is_due(at, found),
        "problem": found.problem,
        "away": isinstance(found.problem, RetryableError),
        "n_records": sum(lags) if lags else None,
        "behind": _behind(max(behind)) if behind else None,
        "headroom": scarcest["headroom"] if scarcest else None,
        "scarce": scarcest is not None and _scarcity(scarcest) < 0.25,  # noqa: PLR2004 - a quarter of the retention time
        "needs": of_brokers(found),
    }


def _scarcity(row: Row) -> float:
    return -1.0 if row["headroom"] == "gone" else float(row["headroom_at_least"])


def _behind(seconds: int) -> str:
    return f"more than {roughly(seconds)}" if seconds else "less than a minute"
