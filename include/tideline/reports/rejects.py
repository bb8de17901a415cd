"""Builds the reports of rejected records: counts by reason, or the records themselves."""

import json
from base64 import b64encode
from collections.abc import Iterable

from tideline.inspection.brokers import declaration
from tideline.ledger import queries
from tideline.ledger.queries import Row
from tideline.ledger.sessions import looking
from tideline.reports.report import Cell, Grid, Report, safe

_SHOWN_CHARACTERS = 200
"""The most characters of a key or value in a table. The JSON document holds all of it."""


def reject_reasons(name: str, *, batch_id: int | None, reason_like: str | None, limit: int) -> Report:
    """Count the rejected records of each reason, the most common first."""
    with looking() as session:
        declaration(session, name)
        rows = queries.reject_reasons(session, name, batch_id=batch_id, reason_like=reason_like, limit=limit)
    grid = Grid(
        columns=(">records", "step", "reason", "first", "last"),
        rows=[(row["n_records"], row["step"], row["reason"], row["first_at"], row["last_at"]) for row in rows],
        empty=f"{name}: no rejects" + (" like that" if batch_id or reason_like else ""),
    )
    return Report(document={"pipeline": name, "reasons": rows}, parts=[grid])


def rejects(name: str, *, batch_id: int | None, reason_like: str | None, limit: int, values: bool) -> Report:
    """List rejected records. Show their bytes only if `values` is set, because they may contain personal data."""
    with looking() as session:
        declaration(session, name)
        rows = queries.rejects(session, name, batch_id=batch_id, reason_like=reason_like, limit=limit)
    grid = Grid(
        columns=("record", "batch", "rejected", "step", "reason", *(("key", "value") if values else ())),
        rows=[tuple(_reject_cells(row, values=values)) for row in rows],
        empty=f"{name}: no rejects" + (" like that" if batch_id or reason_like else ""),
    )
    documents = [_reject_document(row, values=values) for row in rows]
    return Report(document={"pipeline": name, "rejects": documents}, parts=[grid])


def _reject_cells(row: Row, *, values: bool) -> Iterable[Cell]:
    yield f"{row['topic']}/{row['partition']} {row['kafka_offset']}"
    yield str(row["batch_id"])
    yield row["rejected_at"]
    yield row["step"]
    yield row["reason"]
    if values:
        yield shown(row["key"])
        yield shown(row["value"])


def shown(content: bytes | None) -> str | None:
    """Format bytes as text on one line, with escapes for what is not text, and cut to a limited length."""
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
