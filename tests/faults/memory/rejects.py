"""Records that could not be loaded, and the re-drives that try them again."""

from collections import Counter

from faults.memory import ranges
from faults.memory.batches import OPEN
from faults.memory.database import MemoryDatabase
from faults.memory.refusals import duplicate
from faults.memory.registry import Rows, verb
from faults.memory.rows import Reject


@verb
def move_rejects(db: MemoryDatabase, *, batch_id: int, attempt_id: int) -> int:
    staged = db.staged_rejects.get(attempt_id, {})
    for place, row in staged.items():
        if place in db.rejects:
            detail = f"Key (stream_id, kafka_offset)=({place[0]}, {place[1]}) already exists."
            raise duplicate("reject_pkey", detail)
        db.put(db.rejects, place, Reject(row.stream_id, row.kafka_offset, batch_id, *row[2:], attempt_id))
    return len(staged)


@verb
def replace_rejects(db: MemoryDatabase, *, batch_id: int) -> int:
    pieces = db.ranges[batch_id]
    gone = [
        (stream_id, offset)
        for stream_id, offset in db.rejects
        if stream_id in pieces and pieces[stream_id].start <= offset < pieces[stream_id].end
    ]
    for place in gone:
        db.remove(db.rejects, place)
    return len(gone)


@verb
def plan_redrive(db: MemoryDatabase, *, batch_ids: list[int], of_batch: int | None, reason_like: str | None) -> int:
    fitting = _fitting(db, of_batch, reason_like)
    n_taken = 0
    for batch_id in sorted(batch_ids):
        if batch_id not in db.redrives:
            db.put(db.redrives, batch_id, {})
        pieces = db.ranges[batch_id]
        for place in fitting:
            if place[0] in pieces and pieces[place[0]].start <= place[1] < pieces[place[0]].end:
                if place in db.redrives[batch_id]:
                    detail = (
                        f"Key (batch_id, stream_id, kafka_offset)=({batch_id}, {place[0]}, {place[1]}) already exists."
                    )
                    raise duplicate("redrive_pkey", detail)
                db.put(db.redrives[batch_id], place, None)
                n_taken += 1
    return n_taken


def _fitting(db: MemoryDatabase, of_batch: int | None, reason_like: str | None) -> list[tuple[int, int]]:
    """Return stream and offset of rejects that match the request and are not in an open re-drive."""
    taken = {
        place for batch_id, places in db.redrives.items() if db.batches[batch_id].state in OPEN for place in places
    }
    return sorted(
        place
        for place, reject in db.rejects.items()
        if of_batch in {None, reject.batch_id}
        and (reason_like is None or reason_like.lower() in reject.reason.lower())
        and place not in taken
    )


def redriven(db: MemoryDatabase, batch_id: int) -> list[Reject]:
    """Return the rejects of a re-drive that still exist, by stream and offset."""
    return [db.rejects[place] for place in sorted(db.redrives.get(batch_id, ())) if place in db.rejects]


def taken(db: MemoryDatabase, attempt_id: int) -> dict[tuple[int, int], int]:
    """Return what an attempt has read of a re-drive: by stream and offset, the attempt that had rejected it."""
    slices = db.staged_redrives.get(attempt_id, {}).values()
    return {
        (part.stream_id, offset): by
        for part in slices
        for offset, by in zip(part.offsets, part.rejected_by, strict=True)
    }


def settled(db: MemoryDatabase, attempt_id: int) -> list[Reject]:
    """Return the rejects that an attempt has read and that have not changed since."""
    read = taken(db, attempt_id).items()
    found = (db.rejects.get(place) for place, by in read if place in db.rejects and db.rejects[place].attempt_id == by)
    return [reject for reject in found if reject is not None]


@verb
def lock_redriven(db: MemoryDatabase, *, batch_id: int, attempt_id: int) -> Rows:
    read = set(taken(db, attempt_id).items())
    there = {((reject.stream_id, reject.kafka_offset), reject.attempt_id) for reject in redriven(db, batch_id)}
    decoded: Counter[int] = Counter()
    for count in db.staged_counts.get(attempt_id, {}).values():
        decoded[count.stream_id] += count.n_read
    n_read = Counter(stream_id for (stream_id, _), _ in read)
    return [
        {
            "n_read": len(read),
            "n_gone": len(read - there),
            "n_unread": len(there - read),
            "n_undecoded": sum(n_read[stream_id] != decoded[stream_id] for stream_id in n_read.keys() | decoded.keys()),
        }
    ]


@verb
def keep_rejects(db: MemoryDatabase, *, attempt_id: int) -> int:
    again = db.staged_rejects.get(attempt_id, {})
    kept = [reject for reject in settled(db, attempt_id) if (reject.stream_id, reject.kafka_offset) in again]
    for reject in kept:
        place = reject.stream_id, reject.kafka_offset
        row = again[place]
        db.put(db.rejects, place, reject._replace(step=row.step, reason=row.reason, attempt_id=attempt_id))
    return len(kept)


@verb
def settle_rejects(db: MemoryDatabase, *, attempt_id: int, stream_ids: list[int], offsets: list[int]) -> Rows:
    staged = db.staged_rejects.get(attempt_id, {})
    written = set(zip(stream_ids, offsets, strict=True))
    n_gone: Counter[tuple[int, int]] = Counter()
    n_written: Counter[tuple[int, int]] = Counter()
    for reject in settled(db, attempt_id):
        place = reject.stream_id, reject.kafka_offset
        if place not in staged:
            db.remove(db.rejects, place)
            n_gone[reject.batch_id, reject.stream_id] += 1
            n_written[reject.batch_id, reject.stream_id] += place in written
    for (owner, stream_id), gone in n_gone.items():
        ranges.settle(db, db.ranges[owner][stream_id], gone=gone, wrote=n_written[owner, stream_id])
    return [
        {"batch_id": owner, "stream_id": stream_id, "n_gone": gone, "n_written": n_written[owner, stream_id]}
        for (owner, stream_id), gone in n_gone.items()
    ]


@verb
def list_rejects_to_redrive(
    db: MemoryDatabase, *, pipeline: str, of_batch: int | None, reason_like: str | None, size: int
) -> Rows:
    fitting = [place for place in _fitting(db, of_batch, reason_like) if db.streams[place[0]].pipeline == pipeline]
    incarnations = _incarnations(db, {stream_id for stream_id, _ in fitting})
    numbers: Counter[int] = Counter()
    parts: dict[tuple[int, int, int], list[int]] = {}
    for stream_id, offset in fitting:
        incarnation = incarnations[stream_id]
        parts.setdefault((incarnation, numbers[incarnation] // size, stream_id), []).append(offset)
        numbers[incarnation] += 1
    return [
        {
            "incarnation": incarnation,
            "part": part,
            "stream_id": stream_id,
            "start_offset": offsets[0],
            "end_offset": offsets[-1] + 1,
        }
        for (incarnation, part, stream_id), offsets in sorted(parts.items())
    ]


def _incarnations(db: MemoryDatabase, stream_ids: set[int]) -> dict[int, int]:
    """Number the streams of each topic and partition in the order in which they began."""
    numbers: dict[int, int] = {}
    seen: Counter[tuple[str, int]] = Counter()
    for stream_id in sorted(stream_ids):
        place = db.streams[stream_id].topic, db.streams[stream_id].partition
        seen[place] += 1
        numbers[stream_id] = seen[place]
    return numbers
