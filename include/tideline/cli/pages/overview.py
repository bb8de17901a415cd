"""Builds the pages about the present state: all pipelines, and the streams of one compared with its brokers."""

from collections.abc import Iterable, Mapping, Sequence

from tideline.cli import headroom
from tideline.cli.output import Cell, Grid, Page
from tideline.cli.session import Answer, ask, ask_all, declaration, looking
from tideline.declaration import pipelines as declarations
from tideline.declaration.pipelines import Broken, Pipeline
from tideline.domain.offsets import OffsetRange
from tideline.domain.streams import Stream, compare
from tideline.ledger import queries
from tideline.ledger.queries import Row


def pipelines() -> Page:
    """List every pipeline that is declared or that the ledger knows."""
    declared = {one.name: one for one in declarations.declared()}
    with looking() as session:
        known = {row["pipeline"]: row for row in queries.pipelines(session)}
        streams = {name: queries.streams(session, name) for name in known}
    answers = ask_all((one for one in declared.values() if isinstance(one, Pipeline)), streams)
    rows = [
        row_of(name, declared.get(name), known.get(name), streams.get(name, []), answers.get(name))
        for name in sorted(declared.keys() | known.keys())
    ]
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
        rows=[
            (
                row["pipeline"],
                row["state"],
                row["n_streams"],
                row["n_stopped"],
                "?" if row["broker_problem"] else row["lag"],
                row["n_planned"],
                row["n_writing"],
                row["n_failed"],
                row["n_published"],
                row["last_published_at"],
            )
            for row in rows
        ],
        empty="no pipeline is declared, and the ledger has none",
    )
    problems = [answer.problem for answer in answers.values() if answer.problem]
    notes = [f"{row['pipeline']}: {row['broken']}" for row in rows if row["broken"]]
    return Page(document={"pipelines": rows}, parts=[grid, *notes], problem=problems[0] if problems else None)


def row_of(
    name: str,
    declared: Pipeline | Broken | None,
    known: Row | None,
    streams: Iterable[Row] = (),
    answer: Answer | None = None,
) -> Row:
    """Return a pipeline's state and counts, with its lag if its brokers have answered."""
    counts = ("n_streams", "n_active", "n_stopped", "n_retired", "n_planned", "n_writing", "n_failed", "n_published")
    lags = [_lag(row, answer) for row in streams if row["state"] != "retired"] if answer else []
    return {
        "pipeline": name,
        "state": _state(declared, known),
        "declared": isinstance(declared, Pipeline),
        "broken": declared.error.problem if isinstance(declared, Broken) else None,
        "schedule": declared.schedule if isinstance(declared, Pipeline) else None,
        **{count: known[count] if known else 0 for count in counts},
        "lag": sum(lag for lag in lags if lag is not None) if lags else None,
        "last_published_at": known["last_published_at"] if known else None,
        "broker_problem": answer.problem.problem if answer and answer.problem else None,
    }


def _state(declared: Pipeline | Broken | None, known: Row | None) -> str:
    """Return the most important state: broken declaration, new, stopped streams, failed batches, not declared, or ok."""
    if isinstance(declared, Broken):
        return "broken declaration"
    if known is None:
        return "new"
    if known["n_stopped"]:
        return "stopped streams"
    if known["n_failed"]:
        return "failed batches"
    return "ok" if declared else "not declared"


def _lag(row: Row, answer: Answer) -> int | None:
    facts = answer.facts(row["topic_id"], row["partition"])
    return None if facts is None else max(0, facts.end - row["next_offset"])


def streams(name: str) -> Page:
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
    return Page(document=document, parts=[grid, *notes], problem=answer.problem)


def compared(name: str) -> tuple[list[Row], Answer]:
    """Return the streams of a pipeline compared with its brokers, and what those have answered."""
    with looking() as session:
        pipeline = declaration(session, name)
        known = queries.streams(session, name)
    answer = ask(pipeline, {row["topic"] for row in known})
    # Not in `against`: it asks the brokers several times, and few readers of that show it.
    behind = headroom.behind(answer, known)
    rows = [{**row, "behind_seconds_at_least": behind.get(row["stream_id"])} for row in against(known, answer)]
    return rows, answer


def against(known: Sequence[Row], answer: Answer) -> list[Row]:
    """Compare the ledger's streams with the broker's partitions, and show what the next plan would change.

    The next plan stops inconsistent streams and begins new ones.
    """
    compared = compare([_as_stream(row) for row in known], answer.topics, answer.missing)
    inconsistent = {stream.stream_id: problem for stream, problem in compared.inconsistent}
    left = headroom.left(answer, known)
    retention = {topic.topic_id: topic.retention_ms for topic in answer.topics}
    rows = [
        _stream(row, answer, inconsistent) | _headroom(left.get(row["stream_id"]), retention.get(row["topic_id"]))
        for row in known
    ]
    rows += [
        {
            "stream_id": None,
            "topic": topic.topic,
            "partition": facts.partition,
            "topic_id": topic.topic_id,
            "state": "new",
            "start_offset": None,
            "head": None,
            "log_start": facts.log_start,
            "end": facts.end,
            "lag": None,
            "will_stop": False,
            "why": "begins with the next plan",
            **_headroom(None, topic.retention_ms),
        }
        for topic, facts in compared.unseen
    ]
    return rows


def _as_stream(row: Row) -> Stream:
    return Stream(
        stream_id=row["stream_id"],
        cluster_id=row["cluster_id"],
        topic=row["topic"],
        topic_id=row["topic_id"],
        partition=row["partition"],
        start_offset=row["start_offset"],
        next_offset=row["next_offset"],
        reserved=tuple(OffsetRange(start, end) for start, end in row["reserved"]),
        stopped_because=row["stopped_because"],
        accepted_end=row["accepted_end"],
        leader_epoch=row["leader_epoch"],
        retired=row["state"] == "retired",
    )


def _stream(row: Row, answer: Answer, inconsistent: Mapping[int, str]) -> Row:
    facts = answer.facts(row["topic_id"], row["partition"])
    return {
        "stream_id": row["stream_id"],
        "topic": row["topic"],
        "partition": row["partition"],
        "topic_id": row["topic_id"],
        "state": row["state"],
        "start_offset": row["start_offset"],
        "head": row["next_offset"],
        "log_start": facts.log_start if facts else None,
        "end": facts.end if facts else None,
        "lag": _lag(row, answer),
        "will_stop": row["stream_id"] in inconsistent,
        "why": row["stopped_because"] or inconsistent.get(row["stream_id"]),
    }


def _headroom(quarters: int | None, retention_ms: int | None) -> Row:
    retention_seconds = retention_ms // 1000 if retention_ms is not None else None
    if quarters is None or retention_ms is None:
        return {"retention_seconds": retention_seconds, "headroom_at_least": None, "headroom": None}
    words = headroom.worded(quarters, retention_ms)
    return {"retention_seconds": retention_seconds, "headroom_at_least": max(0, quarters) / 4, "headroom": words}


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
