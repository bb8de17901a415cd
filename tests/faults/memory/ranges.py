"""Ranges of batches: reserved by the plan, counted by the publication, and otherwise never changed."""

from collections.abc import Callable
from typing import Any

from psycopg2.extras import Json

from faults.memory.batches import PUBLISHED
from faults.memory.database import MemoryDatabase
from faults.memory.refusals import check, duplicate, law, not_offsets, overlap
from faults.memory.registry import Rows, verb
from faults.memory.rows import Batch, Range

_COUNTS = ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")
_UNTOUCHED = ("n_read", "n_gap", "first_read", "last_read", "published_log_start", "published_end", "n_bytes")


@verb
def reserve_ranges(
    db: MemoryDatabase,
    *,
    batch_ids: list[int],
    stream_ids: list[int],
    starts: list[int],
    ends: list[int],
    gaps_allowed: list[bool],
    log_starts: list[int],
    log_ends: list[int],
) -> int:
    pieces = zip(batch_ids, stream_ids, starts, ends, gaps_allowed, log_starts, log_ends, strict=True)
    there = sorted(piece for piece in pieces if piece[0] in db.batches)
    for batch_id, stream_id, start, end, allowed, *log in there:
        if not 0 <= start < end:
            raise not_offsets()
        batch = db.batches[batch_id]
        reserves = batch.kind in {"live", "backfill"}
        new = Range(batch_id, stream_id, start, end, allowed, reserves, *log)
        _reserve(db, new._replace(alone=batch.outside and not reserves))
    return len(there)


def _reserve(db: MemoryDatabase, new: Range) -> None:
    _check_new(db, db.batches[new.batch_id], new)
    _check_counts(new)
    if new.stream_id in db.ranges[new.batch_id]:
        key = f"Key (batch_id, stream_id)=({new.batch_id}, {new.stream_id}) already exists."
        raise duplicate("batch_range_pkey", key)
    if new.reserves and db.reserving(new.stream_id, new.start, new.end):
        raise overlap("one_owner_per_offset")
    if not new.reserves and any(
        db.batches[other.batch_id].outside != new.alone
        for other in held_alone(db, new.stream_id, new.start, new.end, outside=True)
    ):
        pair = f"{new.start},{new.end}"
        raise law(
            f"batch {new.batch_id}: an open replay or re-drive of offsets [{pair}) of stream {new.stream_id} was planned for another kind of sink"
        )
    if new.alone and held_alone(db, new.stream_id, new.start, new.end):
        raise overlap("one_open_replay")
    db.put(db.ranges[new.batch_id], new.stream_id, new)
    if new.reserves:
        db.put(db.reserved[new.stream_id], new.batch_id, new)


def held_alone(db: MemoryDatabase, stream_id: int, start: int, end: int, *, outside: bool = False) -> list[Range]:
    """Return the ranges of open replays and re-drives of outside sinks that hold some of the offsets, ascending; for an `outside` plan of all."""
    pieces = (ranges[stream_id] for ranges in db.ranges.values() if stream_id in ranges)
    found = (r for r in pieces if r.start < end and start < r.end)
    return sorted((r for r in found if r.alone or (outside and _is_open_replay(db, r))), key=lambda r: r.start)


def _is_open_replay(db: MemoryDatabase, piece: Range) -> bool:
    batch = db.batches[piece.batch_id]
    return batch.kind in {"replay", "redrive"} and batch.state in {"planned", "writing", "failed"}


@verb
def list_alone(db: MemoryDatabase, *, stream_ids: list[int], starts: list[int], ends: list[int], outside: bool) -> Rows:
    found = [
        {
            "stream_id": stream_id,
            "start_offset": max(piece.start, start),
            "end_offset": min(piece.end, end),
            "batch_id": piece.batch_id,
            "state": db.batches[piece.batch_id].state,
            "kind": db.batches[piece.batch_id].kind,
        }
        for stream_id, start, end in zip(stream_ids, starts, ends, strict=True)
        for piece in held_alone(db, stream_id, start, end, outside=outside)
    ]
    return sorted(found, key=lambda row: (row["stream_id"], row["start_offset"]))


def _check_new(db: MemoryDatabase, batch: Batch, new: Range) -> None:
    name, offsets = f"batch {new.batch_id}", f"[{new.start},{new.end})"
    stream = db.streams.get(new.stream_id)
    if batch.state != "planned" or stream is None or stream.pipeline != batch.pipeline:
        raise law(f"{name}: a range belongs to a planned batch of its stream's pipeline")
    covering = db.covering(new.stream_id, new.start, new.end)
    if batch.kind == "live" and (new.start < stream.next_offset or covering):
        raise law(f"{name}: live offsets {offsets} of stream {new.stream_id} are accounted for")
    if batch.kind == "backfill" and any(piece.batch_id is not None for piece in covering):
        raise law(f"{name}: offsets {offsets} of stream {new.stream_id} are loaded")
    if batch.kind == "replay" and not db.is_covered(new.stream_id, new.start, new.end, by_batches=True):
        raise law(f"{name}: not all offsets {offsets} of stream {new.stream_id} are loaded")


def count(db: MemoryDatabase, old: Range, **counts: Any) -> None:
    """Set the counts of a range: of a batch that is being written, or those that a re-drive has changed."""
    new = old._replace(**counts)
    state = db.batches[old.batch_id].state
    if state != "writing" and not (state in PUBLISHED and _is_redriven(old, new)):
        raise law(f"batch {old.batch_id} is {state}: its counts never change")
    _check_counts(new)
    db.put(db.ranges[old.batch_id], old.stream_id, new)
    if old.reserves:
        db.put(db.reserved[old.stream_id], old.batch_id, new)


def settle(db: MemoryDatabase, old: Range, *, gone: int, wrote: int) -> None:
    """Count rejects of a published range that are rejects no more: some of them were written, the others filtered."""
    assert old.n_rejected is not None, old
    assert old.n_written is not None, old
    assert old.n_filtered is not None, old
    count(
        db,
        old,
        n_rejected=old.n_rejected - gone,
        n_written=old.n_written + wrote,
        n_filtered=old.n_filtered + gone - wrote,
    )


def _is_redriven(old: Range, new: Range) -> bool:
    """Return whether rejects have changed to another fate and nothing else has changed."""
    return (
        _is_below(new.n_rejected, old.n_rejected)
        and not _is_below(new.n_written, old.n_written)
        and not _is_below(new.n_filtered, old.n_filtered)
        and all(getattr(old, name) == getattr(new, name) for name in _UNTOUCHED)
    )


def _check_counts(new: Range) -> None:
    """Apply the table's CHECK constraints in the order of Postgres, which is by name. A check that yields null passes."""
    for constraint, breaks in _CHECKS:
        if breaks(new):
            raise _refused(new, constraint)


def _are_apart(new: Range) -> bool:
    """Return whether some of the columns that are counted together are null."""
    together = (*(getattr(new, name) for name in _COUNTS), new.published_log_start, new.published_end)
    return 0 < together.count(None) < len(together)


def _is_below(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other


def _differ(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other


def _sum(*numbers: int | None) -> int | None:
    """Add as SQL does: a null makes the sum null."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _is_below_zero(name: str) -> Callable[[Range], bool]:
    return lambda new: (getattr(new, name) or 0) < 0


_CHECKS: tuple[tuple[str, Callable[[Range], bool]], ...] = (
    *((f"batch_range_{name}_check", _is_below_zero(name)) for name in sorted((*_COUNTS, "n_bytes"))),
    ("counts_add_up", lambda r: _differ(r.n_read, _sum(r.n_written, r.n_rejected, r.n_filtered))),
    ("counts_together", _are_apart),
    ("end_not_behind", lambda r: _is_below(r.published_end, r.end)),
    ("gaps_are_allowed", lambda r: bool(r.n_gap) and not r.gaps_allowed),
    ("offsets_add_up", lambda r: _differ(_sum(r.n_read, r.n_gap), r.end - r.start)),
    ("planned_within_log", lambda r: r.planned_log_start > r.start or r.planned_end < r.end),
    (
        "read_within_range",
        lambda r: (
            _is_below(r.first_read, r.start)
            or _is_below(r.end - 1, r.last_read)
            or _is_below(r.last_read, r.first_read)
        ),
    ),
    (
        "retention_not_ahead",
        lambda r: bool(r.n_gap) and _is_below(r.start, r.published_log_start),
    ),
)


def _refused(row: Range, constraint: str) -> Exception:
    batch_id, stream_id, start, end, *rest = row
    shown = [str(batch_id), str(stream_id), f"[{start},{end})", *map(_shown, rest)]
    return check("batch_range", constraint, ", ".join(shown))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "t" if value else "f"
    return "null" if value is None else str(value)


@verb
def record_counts(
    db: MemoryDatabase, *, batch_id: int, attempt_id: int, filtered_by_difference: bool, written: Json, facts: Json
) -> Rows:
    n_written = {row["stream_id"]: row["n_written"] for row in written.adapted}
    staged_counts = db.staged_counts.get(attempt_id, {}).values()
    staged_rejects = db.staged_rejects.get(attempt_id, {})
    changed = []
    for stream_id, piece in sorted(db.ranges[batch_id].items()):
        counted = [c for c in staged_counts if c.stream_id == stream_id]
        read = sum(c.n_read for c in counted)
        wrote = n_written.get(stream_id, 0)
        rejected = sum(stream == stream_id for stream, _ in staged_rejects)
        broker_facts = facts.adapted.get(str(stream_id), {})
        count(
            db,
            piece,
            n_read=read,
            n_written=wrote,
            n_rejected=rejected,
            n_filtered=read - wrote - rejected if filtered_by_difference else sum(c.n_filtered for c in counted),
            n_gap=piece.end - piece.start - read,
            n_bytes=sum(c.n_bytes for c in counted),
            first_read=min((c.first_read for c in counted), default=None),
            last_read=max((c.last_read for c in counted), default=None),
            published_log_start=broker_facts.get("log_start"),
            published_end=broker_facts.get("end"),
        )
        changed.append({"stream_id": stream_id})
    return changed


@verb
def list_ranges(db: MemoryDatabase, *, batch_id: int) -> Rows:
    found = []
    for stream_id, piece in sorted(db.ranges.get(batch_id, {}).items()):
        s = db.streams[stream_id]
        found.append(
            {
                "stream_id": stream_id,
                "pipeline": s.pipeline,
                "cluster_id": s.cluster_id,
                "topic": s.topic,
                "topic_id": s.topic_id,
                "partition": s.partition,
                "start_offset": piece.start,
                "end_offset": piece.end,
                "gaps_allowed": piece.gaps_allowed,
                **{name: getattr(piece, name) for name in _COUNTS},
            }
        )
    return found


@verb
def average_bytes(db: MemoryDatabase, *, pipeline: str) -> Rows:
    lately: list[Range] = []
    for batch_id in reversed(db.batches):
        if db.batches[batch_id].pipeline == pipeline:
            lately += (piece for piece in db.ranges[batch_id].values() if piece.n_bytes is not None)
        if len(lately) >= 100:
            break
    n_bytes, n_read = sum(r.n_bytes or 0 for r in lately[:100]), sum(r.n_read or 0 for r in lately[:100])
    return [{"average": (2 * n_bytes + n_read) // (2 * n_read) if n_read else None}]
