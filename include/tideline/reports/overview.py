"""Builds the reports about the present state: all pipelines, and the streams of one compared with its brokers."""

from collections.abc import Iterable

from tideline.declaration import pipelines as declarations
from tideline.declaration.pipelines import Broken, Pipeline
from tideline.inspection import comparison, headroom
from tideline.inspection.brokers import Answer, ask, ask_all, declaration
from tideline.ledger import queries
from tideline.ledger.queries import Row
from tideline.ledger.sessions import looking
from tideline.reports.report import Cell, Grid, Report

RETIRED = "retired"
"""The state of a pipeline that a decision has taken out of sight, and that no folder declares."""


def pipelines(*, with_retired: bool = False) -> Report:
    """List every pipeline that is declared or that the ledger knows; those that are retired only if they are asked for."""
    declared = {one.name: one for one in declarations.declared()}
    with looking() as session:
        known = {row["pipeline"]: row for row in queries.pipelines(session)}
        streams = {name: queries.streams(session, name) for name in known}
    answers = ask_all((one for one in declared.values() if isinstance(one, Pipeline)), streams)
    every = [
        row_of(name, declared.get(name), known.get(name), streams.get(name, []), answers.get(name))
        for name in sorted(declared.keys() | known.keys())
    ]
    rows = [row for row in every if with_retired or row["state"] != RETIRED]
    grid = Grid(
        columns=(
            "pipeline",
            "state",
            ">streams",
            ">stopped",
            ">lag",
            ">planned",
            ">writing",
            ">failed",
            ">published",
            "last published",
        ),
        rows=[tuple(_pipeline_cells(row)) for row in rows],
        empty="no pipeline is declared, and the ledger has none",
    )
    problems = [answer.problem for answer in answers.values() if answer.problem]
    notes = [f"{row['pipeline']}: {row['broken']}" for row in rows if row["broken"]]
    if n_hidden := len(every) - len(rows):
        notes.append(f"{n_hidden} retired, not shown: tideline pipelines --retired")
    return Report(document={"pipelines": rows}, parts=[grid, *notes], problem=problems[0] if problems else None)


def _pipeline_cells(row: Row) -> Iterable[Cell]:
    yield from (row[name] for name in ("pipeline", "state", "n_streams", "n_stopped"))
    yield "?" if row["broker_problem"] else row["lag"]
    yield from (row[name] for name in ("n_planned", "n_writing", "n_failed", "n_published", "last_published_at"))


def row_of(
    name: str,
    declared: Pipeline | Broken | None,
    known: Row | None,
    streams: Iterable[Row] = (),
    answer: Answer | None = None,
) -> Row:
    """Return a pipeline's state and counts, with its lag if its brokers have answered."""
    counts = ("n_streams", "n_active", "n_stopped", "n_retired", "n_planned", "n_writing", "n_failed", "n_published")
    lags = [answer.unread(row) for row in streams if row["state"] != "retired"] if answer else []
    return {
        "pipeline": name,
        "state": _state(declared, known),
        "declared": isinstance(declared, Pipeline),
        "broken": declared.error.problem if isinstance(declared, Broken) else None,
        "schedule": declared.schedule if isinstance(declared, Pipeline) else None,
        **{count: known[count] if known else 0 for count in counts},
        "lag": sum(lag for lag in lags if lag is not None) if lags else None,
        "last_published_at": known["last_published_at"] if known else None,
        "retired_at": known["retired_at"] if known else None,
        "broker_problem": answer.problem.problem if answer and answer.problem else None,
    }


def _state(declared: Pipeline | Broken | None, known: Row | None) -> str:
    """Return the most important state: broken declaration, new, retired, stopped streams, failed batches, not declared, or ok."""
    if isinstance(declared, Broken):
        return "broken declaration"
    if known is None:
        return "new"
    if known["retired_at"] and declared is None:
        return RETIRED
    if known["n_stopped"]:
        return "stopped streams"
    if known["n_failed"]:
        return "failed batches"
    return "ok" if declared else "not declared"


def streams(name: str) -> Report:
    """List the streams of a pipeline: head, log start, last stable offset, and the reason if a stream is stopped."""
    rows, answer = compared(name)
    grid = Grid(
        columns=("topic", ">partition", ">head", ">end", ">lag", ">headroom", "state", "why"),
        rows=[tuple(_stream_cells(row, answered=answer.problem is None)) for row in rows],
        empty=f"{name}: no streams yet; the first plan begins them",
    )
    document = {
        "pipeline": name,
        "streams": rows,
        "broker_answered": answer.problem is None,
        "missing_topics": sorted(answer.missing),
    }
    notes = [error.problem for error in answer.missing.values()]
    return Report(document=document, parts=[grid, *notes], problem=answer.problem)


def compared(name: str) -> tuple[list[Row], Answer]:
    """Return the streams of a pipeline compared with its brokers, and what those have answered."""
    with looking() as session:
        pipeline = declaration(session, name)
        known = queries.streams(session, name)
    answer = ask(pipeline, {row["topic"] for row in known})
    # Not in `against`: it asks the brokers several times, and few readers of that show it.
    behind = headroom.behind(answer, known)
    rows = [
        {**row, "behind_seconds_at_least": behind.get(row["stream_id"])} for row in comparison.against(known, answer)
    ]
    return rows, answer


def _stream_cells(row: Row, *, answered: bool) -> Iterable[Cell]:
    unknown = None if answered or row["state"] == "retired" else "?"
    yield row["topic"]
    yield str(row["partition"])
    for name in ("head", "end"):
        yield str(row[name]) if row[name] is not None else unknown
    yield row["lag"] if row["lag"] is not None else unknown
    yield row["headroom"] if row["headroom"] is not None or not row["lag"] else unknown
    yield "stopping" if row["will_stop"] else row["state"]
    yield row["why"] or ""
