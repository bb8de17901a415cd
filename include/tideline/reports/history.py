"""Builds the reports about batches: the list of a pipeline's batches, and the history of one batch."""

from collections.abc import Iterable, Sequence

from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind
from tideline.errors import FatalError
from tideline.inspection.brokers import declaration
from tideline.ledger import queries
from tideline.ledger.queries import Row
from tideline.ledger.sessions import looking
from tideline.reports.report import Cell, Grid, Report, instant, safe

_REQUESTED_KINDS = {BatchKind.REPLAY, BatchKind.REDRIVE}
_COUNTS = ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")
_UNDO = {"kept": "can be rewound", "pruned": "its undo was pruned", "applied": "was rewound"}
_COUNT_HEADINGS = (">read", ">written", ">rejected", ">filtered", ">gap")


def batches(name: str, *, state: str | None, kind: str | None, limit: int) -> Report:
    """List at most `limit` batches of a pipeline, newest first."""
    with looking() as session:
        declaration(session, name)
        rows = queries.batches(session, name, state=state, kind=kind, limit=limit)
    grid = Grid(
        columns=("batch", "kind", "state", ">offsets", *_COUNT_HEADINGS, ">attempts", "planned", "run", "why"),
        rows=[
            (
                str(row["batch_id"]),
                row["kind"],
                row["state"],
                row["n_offsets"],
                *_counts(row),
                row["n_attempts"],
                row["planned_at"],
                row["run_id"],
                safe(row["reason"]) if row["reason"] else row["problem"] if row["state"] == "failed" else None,
            )
            for row in rows
        ],
        empty=f"{name}: no such batch" if state or kind else f"{name}: no batch yet",
    )
    return Report(document={"pipeline": name, "batches": rows}, parts=[grid, *_waiting(rows)])


def _waiting(rows: Iterable[Row]) -> list[str]:
    """Return a line about replays and re-drives that no run for new records adopts, with the commands that resolve them."""
    left = [
        str(row["batch_id"])
        for row in rows
        if row["kind"] in _REQUESTED_KINDS and row["state"] in {"planned", "failed"}
    ]
    if not left:
        return []
    which, verb = ("batch", "waits") if len(left) == 1 else ("batches", "wait")
    waiting = f"{which} {', '.join(left)} {verb} for the run that requested them. New records do not wait for them."
    return [
        f"{waiting} If that run has ended: tideline retry BATCH --reason ..., or tideline abandon BATCH --reason ..."
    ]


def batch(batch_id: int) -> Report:
    """Show one batch: its ranges, its attempts, the schemas and undeclared fields of its records, and every change of its state.

    Raises:
        FatalError: The ledger has no batch with this id.
    """
    with looking() as session:
        found = queries.batch(session, batch_id)
    if found is None:
        raise FatalError(
            f"batch {batch_id} is not in the ledger",
            next_step="look its number up: tideline batches PIPELINE",
            entry="no-such-batch",
        )
    parts: list[Grid | str] = [
        _summary(found),
        _ranges(found),
        _owns(found),
        _attempts(found["attempts"]),
        *_schemas(found["schemas"]),
        *_fields(found["fields"]),
        _events(found["events"]),
    ]
    return Report(document=found, parts=parts)


def _summary(found: Row) -> str:
    lines = [
        f"batch {found['batch_id']} of {found['pipeline']}: {found['kind']}, {found['state']}",
        safe(f"planned: {instant(found['planned_at'])} for run {found['run_id']} of {found['dag_id']}"),
    ]
    lines.append(f"identity, in the names of its output: {found['identity']}")
    if found["supersedes"] is not None:
        lines.append(f"supersedes: batch {found['supersedes']}")
    if found["undo"] is not None:
        lines.append(f"folded: {folded(found)}")
    if found["reason"]:
        lines.append(safe(f"reason: {found['reason']}"))
    return "\n".join(lines)


def folded(found: Row) -> str:
    """Return what a batch has changed in the state of its pipeline, by which version of the processor, and whether it can be rewound."""
    keys, rows, version = found["n_folded_keys"], found["n_expired_rows"], found["processor"]
    return f"{keys:,} keys have changed, timers have made {rows:,} rows, by version {version} of transform.py; {_UNDO[found['undo']]}"


def _ranges(found: Row) -> Grid:
    return Grid(
        title="Ranges",
        columns=("topic", ">partition", ">offsets", *_COUNT_HEADINGS),
        rows=[(row["topic"], str(row["partition"]), _offsets(row), *_counts(row)) for row in found["ranges"]],
    )


def _owns(found: Row) -> str | Grid:
    """Show the offsets that a batch owns now, or one line if it owns all of its ranges."""
    mine = {(row["topic"], row["partition"], row["start_offset"], row["end_offset"]) for row in found["ranges"]}
    owned = {(row["topic"], row["partition"], row["start_offset"], row["end_offset"]) for row in found["owns"]}
    if mine == owned:
        return "Owns now: all of its ranges"
    return Grid(
        title="Owns now",
        columns=("topic", ">partition", ">offsets"),
        rows=[(row["topic"], str(row["partition"]), _offsets(row)) for row in found["owns"]],
        empty="nothing",
    )


def _attempts(rows: Iterable[Row]) -> Grid:
    return Grid(
        title="Attempts",
        columns=(
            ">attempt",
            "outcome",
            "started",
            "ended",
            ">read so far",
            "last progress",
            "task",
            "run",
            "where",
            "problem",
        ),
        rows=[
            (
                str(row["fence"]),
                row["outcome"] or "writing",
                row["started_at"],
                row["ended_at"],
                row["n_read"],
                row["progressed_at"],
                f"{row['task_id']} try {row['try_number']}",
                row["run_id"],
                f"pid {row['pid']} on {row['host']}",
                row["problem"],
            )
            for row in rows
        ],
        empty="none so far",
    )


def _schemas(rows: Sequence[Row]) -> list[Grid]:
    """Show which schemas the records of a batch named; nothing if they name none."""
    if not rows:
        return []
    return [
        Grid(
            title="Schemas",
            columns=("of the", ">id", "kind", "subjects", "registry"),
            rows=[
                (row["part"], str(row["schema_id"]), row["kind"], safe(", ".join(row["subjects"])), row["registry"])
                for row in rows
            ],
        )
    ]


def _fields(rows: Sequence[Row]) -> list[Grid]:
    """Show which fields of a batch's records no column takes; nothing if there are none."""
    if not rows:
        return []
    return [
        Grid(
            title="Fields that are not declared",
            columns=("of the", "field", ">records", "one of them"),
            rows=[
                (
                    row["part"],
                    safe(row["name"]),
                    f"{row['n_records']:,}",
                    f"{row['topic']}/{row['partition']} offset {row['record_offset']}",
                )
                for row in rows
            ],
        )
    ]


def _events(rows: Iterable[Row]) -> Grid:
    return Grid(
        title="Events",
        columns=("at", "action", "state", "who", "detail"),
        rows=[
            (
                row["at"],
                row["action"],
                " > ".join(filter(None, (row["from_state"], row["to_state"]))),
                row["actor"],
                safe(", ".join(f"{key}: {value}" for key, value in row["detail"].items())),
            )
            for row in rows
        ],
    )


def _offsets(row: Row) -> str:
    return str(OffsetRange(row["start_offset"], row["end_offset"]))


def _counts(row: Row) -> tuple[Cell, ...]:
    return tuple(row[name] for name in _COUNTS)
