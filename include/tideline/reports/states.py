"""Builds the reports about the state of a stateful pipeline: what its streams keep, and the history of one key."""

import json
from datetime import UTC, datetime
from typing import Any

import orjson

from tideline.declaration.pipelines import Pipeline
from tideline.inspection.brokers import declaration
from tideline.ledger import queries
from tideline.ledger.sessions import looking
from tideline.reports.report import Grid, Report, safe


def state(name: str) -> Report:
    """Show how far each stream is folded, and what it keeps."""
    with looking() as session:
        pipeline = declaration(session, name)
        rows = queries.state(session, name)
    for row in rows:
        row["watermark"] = _watermark(pipeline, row["max_time"])
    columns = (
        "topic",
        ">partition",
        ">folded to",
        ">head",
        ">keys",
        ">bytes",
        "watermark",
        "next timer",
        ">oldest batch",
    )
    grid = Grid(
        columns=columns,
        rows=[
            (
                row["topic"],
                str(row["partition"]),
                row["next_offset"],
                row["head"],
                row["n_keys"],
                row["n_bytes"],
                row["watermark"],
                row["next_timer"],
                row["oldest_batch"],
            )
            for row in rows
        ],
        empty=_none(pipeline) or f"{name}: nothing is folded yet",
    )
    sums = {what: sum(row[what] for row in rows) for what in ("n_keys", "n_bytes")}
    parts: list[Grid | str] = [grid]
    if rows:
        parts.append(f"{sums['n_keys']:,} keys, {sums['n_bytes']:,} bytes as JSON.")
    if ahead := [f"{row['topic']}/{row['partition']}" for row in rows if _is_ahead(pipeline, row["max_time"])]:
        parts.append(
            f"{', '.join(ahead)}: the newest event is further ahead of the clock than state.ahead_minutes allows, and events of today are late. "
            "See docs/operating.md#events-ahead-of-their-time"
        )
    return Report(document={"pipeline": name, "streams": rows, **sums, "ahead": ahead}, parts=parts)


def _none(pipeline: Any) -> str:
    """Return what to say of a pipeline that keeps no state; nothing of one that does, or whose declaration cannot be read."""
    if isinstance(pipeline, Pipeline) and pipeline.state is None:
        return f"{pipeline.name}: no state is kept, because its declaration has no section `state`"
    return ""


def _watermark(pipeline: Any, latest: datetime | None) -> datetime | None:
    """Return the watermark; None where nothing was folded, or the declaration does not say how far it is behind."""
    if latest is None or not isinstance(pipeline, Pipeline) or pipeline.state is None:
        return None
    return latest - pipeline.state.lateness


def _is_ahead(pipeline: Any, latest: datetime | None) -> bool:
    """Return whether an event has raised the watermark that would be a reject now: more was allowed when it was folded."""
    if latest is None or not isinstance(pipeline, Pipeline) or pipeline.state is None:
        return False
    return latest - datetime.now(UTC) > pipeline.state.ahead


def key(name: str, text: str) -> Report:
    """Show the state of a key after each batch that has changed it, newest first."""
    with looking() as session:
        pipeline = declaration(session, name)
        rows = queries.key_history(session, name, _keys(text))
    grid = Grid(
        columns=("key", "after batch", "published", "value", "timer", "last record"),
        rows=[
            (
                safe(row["key"]),
                "as it was before" if row["batch_id"] is None else str(row["batch_id"]),
                row["published_at"],
                "nothing kept" if row["value"] is None else safe(json.dumps(row["value"], ensure_ascii=False)),
                row["expires_at"],
                None if row["topic"] is None else f"{row['topic']}/{row['partition']} {row['kafka_offset']}",
            )
            for row in rows
        ],
        empty=_none(pipeline)
        or f"{name}: nothing is kept for the key {safe(text)}, and no batch that can be rewound has changed it",
    )
    return Report(document={"pipeline": name, "key": text, "history": rows}, parts=[grid])


def _keys(text: str) -> list[str]:
    """Return how a key may be stored that was given as a value, or as the JSON list of the values of its columns."""
    try:
        given: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        given = text
    if isinstance(given, list):
        return [orjson.dumps(given).decode()]
    return [orjson.dumps([one]).decode() for one in ([text] if given == text else [text, given])]
