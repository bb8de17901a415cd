"""Pages about batches: which there are, and all that happened to one of them."""

from collections.abc import Iterable

from tideline.cli.output import Cell, Grid, Page, instant, safe
from tideline.cli.session import declaration, looking
from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind
from tideline.errors import FatalError
from tideline.ledger import queries
from tideline.ledger.queries import Row

_ASKED_FOR = {BatchKind.REPLAY, BatchKind.REDRIVE}
_COUNTS = ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")
_COUNT_HEADINGS = (">read", ">written", ">rejected", ">filtered", ">gap")


def batches(name: str, *, state: str | None, kind: str | None, limit: int) -> Page:
    """The newest batches of a pipeline, newest first."""
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
    return Page(document={"pipeline": name, "batches": rows}, parts=[grid, *_waiting(rows)])


def _waiting(rows: Iterable[Row]) -> list[str]:
    """What no run for new records takes, and how it is written after all."""
    left = [str(row["batch_id"]) for row in rows if row["kind"] in _ASKED_FOR and row["state"] in {"planned", "failed"}]
    if not left:
        return []
    which, verb = ("batch", "waits") if len(left) == 1 else ("batches", "wait")
    asked = f"{which} {', '.join(left)} {verb} for the run that asked for them, and hold no new records up."
    return [f"{asked} If that run has ended: tideline retry BATCH --reason ..., or tideline abandon BATCH --reason ..."]


def batch(batch_id: int) -> Page:
    """One batch: what it holds, who tried to write it, and every change of its state.

    Raises:
        FatalError: There is no such batch.
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
        _events(found["events"]),
    ]
    return Page(document=found, parts=parts)


def _summary(found: Row) -> str:
    lines = [
        f"batch {found['batch_id']} of {found['pipeline']}: {found['kind']}, {found['state']}",
        safe(f"planned: {instant(found['planned_at'])} for run {found['run_id']} of {found['dag_id']}"),
    ]
    if found["supersedes"] is not None:
        lines.append(f"supersedes: batch {found['supersedes']}")
    if found["reason"]:
        lines.append(safe(f"reason: {found['reason']}"))
    return "\n".join(lines)


def _ranges(found: Row) -> Grid:
    return Grid(
        title="Ranges",
        columns=("topic", ">partition", ">offsets", *_COUNT_HEADINGS),
        rows=[(row["topic"], str(row["partition"]), _offsets(row), *_counts(row)) for row in found["ranges"]],
    )


def _owns(found: Row) -> str | Grid:
    """A batch that owns all that it has loaded needs no table to say so."""
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
        empty="nobody has tried to write it",
    )


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
