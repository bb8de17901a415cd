"""What people and programs want to see of the ledger: rows as dictionaries, whose keys are the columns of the query file.

Only looks: locks nothing, changes nothing, asks no broker. The command line calls it; the flow never does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tideline.ledger.connection import Ledger

Row = dict[str, Any]


@contextmanager
def reading(ledger: Ledger) -> Iterator[None]:
    """One moment of the ledger for all that is asked inside: two lists of one page never contradict each other."""
    with ledger.transaction():
        ledger.run("begin_reading")
        yield


def names(ledger: Ledger) -> list[str]:
    """The pipelines that ever planned."""
    return [row["pipeline"] for row in ledger.rows("view_pipeline_names")]


def pipelines(ledger: Ledger) -> list[Row]:
    """Every pipeline that ever planned, with its streams and open batches counted."""
    return _dicts(ledger.rows("view_pipelines"))


def streams(ledger: Ledger, pipeline: str) -> list[Row]:
    """The streams of a pipeline, retired ones as well."""
    return _dicts(ledger.rows("view_streams", pipeline=pipeline))


def batches(
    ledger: Ledger, pipeline: str, *, state: str | None = None, kind: str | None = None, limit: int = 20
) -> list[Row]:
    """The newest batches, with their counts summed over their ranges."""
    return _dicts(ledger.rows("view_batches", pipeline=pipeline, state=state, kind=kind, limit=limit))


def batch(ledger: Ledger, batch_id: int) -> Row | None:
    """One batch with `ranges`, `owns`, `attempts` and `events`; None where there is no such batch."""
    found = ledger.row("view_batch", batch_id=batch_id)
    if found is None:
        return None
    return {
        **found,
        "ranges": _dicts(ledger.rows("view_batch_ranges", batch_id=batch_id)),
        "owns": _dicts(ledger.rows("view_batch_owned", batch_id=batch_id)),
        "attempts": _dicts(ledger.rows("view_batch_attempts", batch_id=batch_id)),
        "events": _dicts(ledger.rows("view_batch_events", batch_id=batch_id)),
    }


def coverage(ledger: Ledger, pipeline: str) -> list[Row]:
    """By stream, who accounts for its offsets; `missing` holds those that nobody does."""
    return _dicts(ledger.rows("view_coverage", pipeline=pipeline))


def holes(ledger: Ledger, pipeline: str) -> list[Row]:
    """Offsets that were skipped or lost, with reason and name."""
    return _dicts(ledger.rows("view_holes", pipeline=pipeline))


def reject_reasons(
    ledger: Ledger, pipeline: str, *, batch_id: int | None = None, reason_like: str | None = None, limit: int = 20
) -> list[Row]:
    """How many records were rejected for each reason."""
    return _dicts(
        ledger.rows("view_reject_reasons", pipeline=pipeline, batch_id=batch_id, reason_like=reason_like, limit=limit)
    )


def rejects(
    ledger: Ledger, pipeline: str, *, batch_id: int | None = None, reason_like: str | None = None, limit: int = 20
) -> list[Row]:
    """Rejected records with key, value and headers as `bytes`."""
    found = _dicts(
        ledger.rows("view_rejects", pipeline=pipeline, batch_id=batch_id, reason_like=reason_like, limit=limit)
    )
    for row in found:
        for name in ("key", "value", "headers"):
            row[name] = None if row[name] is None else bytes(row[name])  # a memoryview of the answer, by the driver
    return found


def _dicts(rows: list[Any]) -> list[Row]:
    return [dict(row) for row in rows]
