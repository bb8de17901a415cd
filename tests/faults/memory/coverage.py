"""Coverage: the owner of each offset. Owners may change, but at the end of a transaction every offset that had an owner must still have one."""

from collections.abc import Iterable
from typing import Any

from faults.memory import events
from faults.memory.batches import OPEN, PUBLISHED
from faults.memory.database import MemoryDatabase
from faults.memory.refusals import check, law, not_offsets, overlap, unmet
from faults.memory.registry import Rows, verb
from faults.memory.rows import Batch, Coverage, Range


def insert(
    db: MemoryDatabase,
    stream_id: int,
    start: int,
    end: int,
    *,
    batch_id: int | None = None,
    hole: str | None = None,
    reason: str | None = None,
    decided_by: str | None = None,
    decided_in: int | None = None,
) -> None:
    """Give offsets an owner."""
    if not 0 <= start < end:
        raise not_offsets()
    by = db.transaction if decided_in is None else decided_in
    new = Coverage(db.next_id("coverage"), stream_id, start, end, batch_id, hole, reason, decided_by, by)
    is_new_hole = hole is not None and by == db.transaction
    if batch_id is not None and not _has_published(db, batch_id, new):
        raise unmet(f"batch {batch_id} has not published [{start},{end}) of stream {stream_id}")
    if is_new_hole and db.reserving(stream_id, start, end):
        raise unmet(f"offsets [{start},{end}) of stream {stream_id} are reserved by a batch: no hole")
    _check(new)
    if hole == "rewound" and by == db.transaction and not db.is_rewinding(db.streams[stream_id].pipeline):
        raise law(f"offsets [{start},{end}) of stream {stream_id} are not rewound")
    if db.covering(stream_id, start, end):
        raise overlap("one_owner_in_output")
    db.put(db.coverage[stream_id], start, new)
    if is_new_hole and hole != "rewound":
        detail = {"from": start, "to": end, "reason": reason, "decided_by": decided_by}
        action = "skip" if hole == "skipped" else "accept loss"
        events.insert(db, action, db.streams[stream_id].pipeline, stream_id=stream_id, detail=detail)


def _has_published(db: MemoryDatabase, batch_id: int, new: Coverage) -> bool:
    piece = db.ranges[batch_id].get(new.stream_id)
    inside = piece is not None and piece.start <= new.start and new.end <= piece.end
    return inside and db.batches[batch_id].state in PUBLISHED


def _check(new: Coverage) -> None:
    if (new.batch_id is None) != (new.hole is not None):
        raise check("coverage", "batch_or_hole", str(new))
    if new.decided_by == "":
        raise check("coverage", "coverage_decided_by_check", str(new))
    if new.reason == "":
        raise check("coverage", "coverage_reason_check", str(new))
    if new.hole is not None and (new.reason is None or new.decided_by is None):
        raise check("coverage", "holes_have_a_name", str(new))


@verb
def record_hole(
    db: MemoryDatabase,
    *,
    stream_id: int,
    start: int,
    end: int,
    hole: str,
    reason: str | None,
    decided_by: str | None,
) -> int:
    by = db.actor if decided_by is None else decided_by
    insert(db, stream_id, start, end, hole=hole, reason=reason, decided_by=by)
    return 1


def leave(db: MemoryDatabase, owned: Coverage) -> None:
    """Take offsets from their owner. At the end of the transaction they must have another one."""
    db.remove(db.coverage[owned.stream_id], owned.start)
    db.uncovered.append(owned)


def check_left(db: MemoryDatabase, gone: Iterable[Coverage]) -> None:
    """Refuse to take offsets from a batch that is folded into the state. Postgres asks at the end of the statement that takes them."""
    for owned in gone:
        folded = None if owned.batch_id is None else db.state_batches.get(owned.batch_id)
        if folded is not None and folded.undo != "applied":
            offsets = f"[{owned.start},{owned.end}) of stream {owned.stream_id}"
            raise law(f"offsets {offsets} are folded into the state by batch {owned.batch_id}")


@verb
def skip_rewound(db: MemoryDatabase, *, stream_id: int, start: int, end: int) -> int:
    kept = 0
    for hole in db.covering(stream_id, start, end):
        if hole.hole == "rewound":
            leave(db, hole)
            for rest in ((hole.start, min(hole.end, start)), (max(hole.start, end), hole.end)):
                if rest[0] < rest[1]:
                    _keep(db, hole, *rest)
                    kept += 1
    return kept


@verb
def cover_batch(db: MemoryDatabase, *, batch_id: int) -> int:
    for stream_id, piece in sorted(db.ranges[batch_id].items()):
        insert(db, stream_id, piece.start, piece.end, batch_id=batch_id)
    return len(db.ranges[batch_id])


@verb
def uncover_ranges(db: MemoryDatabase, *, batch_id: int) -> int:
    kept, gone = 0, list[Coverage]()
    for stream_id, piece in sorted(db.ranges[batch_id].items()):
        for owned in db.covering(stream_id, piece.start, piece.end):
            leave(db, owned)
            gone.append(owned)
            for start, end in ((owned.start, min(owned.end, piece.start)), (max(owned.start, piece.end), owned.end)):
                if start < end:
                    _keep(db, owned, start, end)
                    kept += 1
    check_left(db, gone)
    return kept


def _keep(db: MemoryDatabase, owned: Coverage, start: int, end: int) -> None:
    insert(
        db,
        owned.stream_id,
        start,
        end,
        batch_id=owned.batch_id,
        hole=owned.hole,
        reason=owned.reason,
        decided_by=owned.decided_by,
        decided_in=owned.decided_in,
    )


@verb
def lock_owners(db: MemoryDatabase, *, batch_id: int) -> Rows:
    owners = {
        owned.batch_id
        for stream_id, piece in db.ranges.get(batch_id, {}).items()
        for owned in db.covering(stream_id, piece.start, piece.end)
        if owned.batch_id is not None
    }
    return [{"batch_id": owner} for owner in sorted(owners)]


@verb
def list_owners(db: MemoryDatabase, *, stream_ids: list[int], starts: list[int], ends: list[int]) -> Rows:
    found = []
    for stream_id, start, end in zip(stream_ids, starts, ends, strict=True):
        if stream_id not in db.streams:
            continue
        for owned in db.covering(stream_id, start, end):
            batch = None if owned.batch_id is None else db.batches[owned.batch_id]
            found.append(_owner(stream_id, start, end, owned, batch) | {"hole": owned.hole})
        for piece in db.reserving(stream_id, start, end):
            batch = db.batches[piece.batch_id]
            if batch.state in OPEN:
                found.append(_owner(stream_id, start, end, piece, batch) | {"hole": None})
    return sorted(found, key=lambda row: (row["stream_id"], row["start_offset"]))


def _owner(stream_id: int, start: int, end: int, piece: Coverage | Range, batch: Batch | None) -> dict[str, Any]:
    return {
        "stream_id": stream_id,
        "start_offset": max(start, piece.start),
        "end_offset": min(end, piece.end),
        "batch_id": piece.batch_id,
        "state": None if batch is None else batch.state,
        "kind": None if batch is None else batch.kind,
    }
