"""The numbers that the ledger alone knows."""

from collections.abc import Collection, Iterable, Sequence

from tideline.ledger import metrics, queries
from tideline.ledger.connection import Ledger
from tideline.ledger.queries import Row
from tideline.metrics.sheet import Sheet

_STREAM_STATES = ("active", "stopped", "retired")
_OPEN_STATES = ("planned", "writing", "failed", "published")
_HOLES = ("skipped", "lost", "rewound")
_FATES = ("written", "rejected", "filtered")
_STEPS = ("decode", "transform", "store")


def fill(
    sheet: Sheet, ledger: Ledger, only: str | None = None, *, declared: Collection[str] | None = None
) -> dict[str, list[Row]]:
    """Put the ledger's numbers on the sheet. Return the streams by pipeline, to compare them with the brokers.

    Args:
        sheet: The sheet.
        ledger: The session.
        only: The pipeline whose streams to read; None for those of all. Only these are many.
        declared: The pipelines that have a folder: a retired one that has none is left out. None if that is not known, and all are shown.

    Raises:
        TidelineError: The ledger does not answer, or is of another release.
    """
    metrics.limit(ledger)
    known = [
        row
        for row in queries.pipelines(ledger)
        if not row["retired_at"] or declared is None or row["pipeline"] in declared
    ]
    for row in known:
        _pipeline(sheet, row)
    for row in metrics.work(ledger):
        sheet.put("last_planned_timestamp_seconds", row["last_planned_at"], row["pipeline"])
        sheet.put("oldest_open_batch_timestamp_seconds", row["oldest_open_at"], row["pipeline"])
    for row in metrics.recent_work(ledger):
        sheet.durations[row["pipeline"]] = row["durations"]
        for fate in _FATES:
            sheet.put("recent_records", row[f"n_{fate}"], row["pipeline"], fate)
    for row in metrics.recent_fields(ledger):
        sheet.put("undeclared_fields", row["n_fields"], row["pipeline"])
    for row in metrics.hole_sums(ledger):
        sheet.put("hole_offsets", row["n_offsets"], row["pipeline"], row["hole"])
    _rejects(sheet, known, metrics.reject_steps(ledger))
    for row in metrics.outbox(ledger):
        sheet.put("outbox_batches", row["n_waiting"], row["pipeline"])
        sheet.put("outbox_oldest_timestamp_seconds", row["oldest_at"], row["pipeline"])
    for row in metrics.state_sizes(ledger):
        sheet.put("state_keys", row["n_keys"], row["pipeline"])
        sheet.put("state_bytes", row["n_bytes"], row["pipeline"])
    streams = {
        row["pipeline"]: queries.streams(ledger, row["pipeline"]) for row in known if only in (None, row["pipeline"])
    }
    for pipeline, rows in streams.items():
        heads(sheet, pipeline, [row | {"head": row["next_offset"]} for row in rows])
    sheet.only({row["pipeline"] for row in known})
    return streams


def heads(sheet: Sheet, pipeline: str, rows: Sequence[Row]) -> None:
    """Put the heads of streams that are followed on the sheet. A retired stream has the labels of the one that replaces it."""
    for row in rows:
        if row["state"] != "retired":
            sheet.put("head_offset", row["head"], pipeline, row["topic"], row["partition"])


def _rejects(sheet: Sheet, known: Iterable[Row], counted: Iterable[Row] | None) -> None:
    """Put rejects by step on the sheet; a step without any is 0, so that an alert notices the first one."""
    if counted is None:
        return
    for row in known:
        for step in _STEPS:
            sheet.put("rejects", 0, row["pipeline"], step)
    for row in counted:
        sheet.put("rejects", row["n_records"], row["pipeline"], row["step"])


def _pipeline(sheet: Sheet, row: Row) -> None:
    name = row["pipeline"]
    for state in _STREAM_STATES:
        sheet.put("streams", row[f"n_{state}"], name, state)
    for state in _OPEN_STATES:
        sheet.put("open_batches", row[f"n_{state}"], name, state)
    for hole in _HOLES:  # a kind without holes is 0, so that an alert notices the first one
        sheet.put("hole_offsets", 0, name, hole)
    sheet.put("last_published_timestamp_seconds", row["last_published_at"], name)
