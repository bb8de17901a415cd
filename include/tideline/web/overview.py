"""The overview: every pipeline, the one that needs a person most first. The ledger's part comes at once, each broker's when it broker_cache."""

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from tideline.declaration.pipelines import Broken, Pipeline
from tideline.ledger import queries
from tideline.ledger.queries import Row
from tideline.ledger.sessions import looking
from tideline.reports.overview import RETIRED, row_of
from tideline.web import broker_cache
from tideline.web.access import Seen, User, visible
from tideline.web.broker_cache import Compared
from tideline.web.needs import Level, of_brokers, of_ledger, worst_first
from tideline.web.rendering import page, roughly

router = APIRouter()
_RECENT_BATCHES = 20
NEEDING = "needs a person"
"""What a filter of states knows besides the states: whether anything needs a person."""


@router.get("/")
def overview(request: Request, user: User, q: str = "", state: str = "", tag: str = "") -> HTMLResponse:
    """Show the pipelines whose DAG the user may see: all, or those with a word, a state and a tag. Retired ones are shown by their state only."""
    every = _rows(user)
    listed = [row for row in every if (row["state"] == RETIRED) == (state == RETIRED)]
    rows = [row for row in listed if _fits(row, q, state, tag)]
    wanted = {name: value for name, value in (("q", q), ("state", state), ("tag", tag)) if value}
    return page(
        request,
        "overview.html",
        rows=rows,
        n_all=len(listed),
        n_retired=0 if state == RETIRED else len(every) - len(listed),
        n_needing=sum(row["level"] > Level.FINE for row in rows),
        asking=any(row["lag"] is None or row["lag"]["old"] for row in rows),
        wanted=wanted,
        address=f"?{urlencode(wanted)}" if wanted else "",
        states=[NEEDING, *sorted(({row["state"] for row in every} | {state}) - {NEEDING, ""})],
        tags=sorted(({one for row in every for one in row["tags"]} | {tag}) - {""}),
    )


def _fits(row: Row, q: str, state: str, tag: str) -> bool:
    in_state = row["level"] > Level.FINE if state == NEEDING else state in {"", row["state"]}
    return in_state and (not tag or tag in row["tags"]) and q.strip().lower() in row["searched"]


@router.get("/pipelines/{pipeline}/lag")
def lag(request: Request, pipeline: Seen) -> HTMLResponse:
    """Ask the brokers of one pipeline, and show its lag and headroom."""
    at, found = broker_cache.streams(pipeline)
    return page(request, "lag.html", pipeline=pipeline, lag=of_answer(at, found) | {"old": False})


def _rows(user: User) -> list[Row]:
    declared = broker_cache.declared()
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
    kept = broker_cache.kept(row["pipeline"])
    lag = of_answer(*kept) if kept else None
    needs = worst_first(needs + (lag["needs"] if lag else []))
    return {
        **row,
        "tags": declared.tags if isinstance(declared, Pipeline) else (),
        "searched": f"{row['pipeline']} {_said_of(declared)}".lower(),
        "recent": recent,
        "needs": needs,
        "lag": lag,
        "level": needs[0].level if needs else Level.FINE,
        "severity": needs[0].severity if needs else 0,
    }


def _said_of(declared: object) -> str:
    """Return what a search for a pipeline looks at, besides its name."""
    if not isinstance(declared, Pipeline):
        return ""
    source = declared.source
    topics = [*(source.topics or ()), source.topic_pattern or ""]
    return " ".join([declared.description, *topics, declared.sink.output])


def of_answer(at: datetime, found: Compared) -> dict[str, Any]:
    """Return what a row of the overview shows of the brokers' answer."""
    active = [row for row in found.rows if row["state"] != "retired"]
    lags = [row["lag"] for row in active if row["lag"] is not None]
    behind = [age for row in active if (age := row.get("behind_seconds_at_least")) is not None]
    left = [row for row in active if row["headroom_at_least"] is not None]
    scarcest = min(left, key=_scarcity, default=None)
    return {
        "at": at,
        "old": broker_cache.is_due(at, found),
        "problem": found.problem,
        "away": found.is_away,
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
