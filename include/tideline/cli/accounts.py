"""Pages about what is not in the output: holes and what lies before a start, and rejected records."""

import json
from base64 import b64encode
from collections.abc import Iterable

from tideline.cli.output import Cell, Grid, Page, safe
from tideline.cli.reaching import Answer, ask, declaration, looking
from tideline.domain.offsets import OffsetRange, subtract
from tideline.ledger import views
from tideline.ledger.views import Row

_SHOWN_CHARACTERS = 200
"""Of a key or value in a table; the JSON document holds all of it."""


def coverage(name: str) -> Page:
    """Every offset between start and head that no batch has loaded, and what of Kafka lies before a start."""
    with looking() as session:
        pipeline = declaration(session, name)
        accounted = views.coverage(session, name)
        holes = views.holes(session, name)
    answer = ask(pipeline, {row["topic"] for row in accounted})
    rows = [*holes, *_before_start(accounted, answer), *_missing(accounted)]
    rows.sort(key=lambda row: (row["topic"], row["partition"], row["start_offset"]))
    grid = Grid(
        columns=("topic", ">partition", ">offsets", ">count", "what", "reason", "who", "when"),
        rows=[
            (
                row["topic"],
                str(row["partition"]),
                str(OffsetRange(row["start_offset"], row["end_offset"])),
                row["end_offset"] - row["start_offset"],
                row["hole"],
                safe(row["reason"]),
                row["decided_by"],
                row["recorded_at"],
            )
            for row in rows
        ],
        empty=f"{name}: no holes",
    )
    tiled = all(not row["missing"] for row in accounted)
    document = {
        "pipeline": name,
        "holes": rows,
        "streams": accounted,
        "tiles": tiled,
        "broker_answered": answer.problem is None,
    }
    return Page(
        document=document,
        parts=[grid, _summary(accounted, tiled=tiled)],
        problem=answer.problem,
        exit_code=0 if tiled else 30,
    )


def _before_start(accounted: Iterable[Row], answer: Answer) -> Iterable[Row]:
    """Kafka still holds it, and no plan takes it unless it is asked to: a backfill could."""
    for row in accounted:
        facts = answer.facts(row["topic_id"], row["partition"])
        if facts and facts.log_start < row["start_offset"]:
            loaded = [OffsetRange(start, end) for start, end in row["before_start"]]
            for piece in subtract(OffsetRange(facts.log_start, row["start_offset"]), loaded):
                yield _hole(row, piece.start, piece.end, "before start", f"the stream began at {row['start_offset']}")


def _missing(accounted: Iterable[Row]) -> Iterable[Row]:
    for row in accounted:
        for start, end in row["missing"]:
            yield _hole(row, start, end, "missing", "nobody accounts for it: the ledger is damaged")


def _hole(row: Row, start: int, end: int, hole: str, reason: str) -> Row:
    return {
        "stream_id": row["stream_id"],
        "topic": row["topic"],
        "partition": row["partition"],
        "start_offset": start,
        "end_offset": end,
        "hole": hole,
        "reason": reason,
        "decided_by": None,
        "recorded_at": None,
    }


def _summary(accounted: list[Row], *, tiled: bool) -> str:
    if not accounted:
        return "No streams yet; the first plan begins them."
    loaded, skipped, lost = (sum(row[name] for row in accounted) for name in ("n_loaded", "n_skipped", "n_lost"))
    sums = f"{loaded:,} offsets loaded, {skipped:,} skipped, {lost:,} lost"
    if tiled:
        return f"Coverage tiles [start, head) of all {len(accounted)} streams: {sums}."
    n_broken = sum(bool(row["missing"]) for row in accounted)
    return f"Coverage does NOT tile [start, head) of {n_broken} of {len(accounted)} streams: {sums}."


def reject_reasons(name: str, *, batch_id: int | None, reason_like: str | None, limit: int) -> Page:
    """How many records were rejected for each reason, the most common first."""
    with looking() as session:
        declaration(session, name)
        rows = views.reject_reasons(session, name, batch_id=batch_id, reason_like=reason_like, limit=limit)
    grid = Grid(
        columns=(">records", "step", "reason", "first", "last"),
        rows=[(row["n_records"], row["step"], row["reason"], row["first_at"], row["last_at"]) for row in rows],
        empty=f"{name}: no rejects" + (" like that" if batch_id or reason_like else ""),
    )
    return Page(document={"pipeline": name, "reasons": rows}, parts=[grid])


def rejects(name: str, *, batch_id: int | None, reason_like: str | None, limit: int, values: bool) -> Page:
    """The rejected records themselves; their bytes only if `values`, since they may be about people."""
    with looking() as session:
        declaration(session, name)
        rows = views.rejects(session, name, batch_id=batch_id, reason_like=reason_like, limit=limit)
    grid = Grid(
        columns=("record", "batch", "rejected", "step", "reason", *(("key", "value") if values else ())),
        rows=[tuple(_reject_cells(row, values=values)) for row in rows],
        empty=f"{name}: no rejects" + (" like that" if batch_id or reason_like else ""),
    )
    documents = [_reject_document(row, values=values) for row in rows]
    return Page(document={"pipeline": name, "rejects": documents}, parts=[grid])


def _reject_cells(row: Row, *, values: bool) -> Iterable[Cell]:
    yield f"{row['topic']}/{row['partition']} {row['kafka_offset']}"
    yield str(row["batch_id"])
    yield row["rejected_at"]
    yield row["step"]
    yield row["reason"]
    if values:
        yield _shown(row["key"])
        yield _shown(row["value"])


def _shown(content: bytes | None) -> Cell:
    """As text where it is text, else with escapes, on one line."""
    if content is None:
        return None
    text = safe(content[: 4 * _SHOWN_CHARACTERS + 4].decode("utf-8", errors="backslashreplace"))
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}… ({len(content)} bytes)"


def _reject_document(row: Row, *, values: bool) -> Row:
    document = {name: value for name, value in row.items() if name not in {"key", "value", "headers"}}
    if values:
        for name in ("key", "value"):
            document[f"{name}_base64"] = None if row[name] is None else b64encode(row[name]).decode()
        document["headers"] = None if row["headers"] is None else json.loads(row["headers"])
    return document
