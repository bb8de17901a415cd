"""Records that could not be loaded, and the batches that try them once more."""

from collections import Counter

from faults.memory import ranges
from faults.memory.batches import OPEN
from faults.memory.database import MemoryDatabase
from faults.memory.refusals import dangling, duplicate
from faults.memory.registry import Rows, verb
from faults.memory.rows import Reject


@verb
def move_rejects(db: MemoryDatabase, *, batch_id: int, attempt_id: int) -> int:
    staged = db.staged_rejects.get(attempt_id, {})
    for place, row in staged.items():
        if place in db.rejects:
            detail = f"Key (stream_id, kafka_offset)=({place[0]}, {place[1]}) already exists."
            raise duplicate("reject_pkey", detail)
        stream_id, offset, *rest = row
        db.put(db.rejects, place, Reject(stream_id, offset, batch_id, *rest))
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
def plan_redrive(db: MemoryDatabase, *, batch_id: int, stream_ids: list[int], offsets: list[int]) -> int:
    if batch_id not in db.redrives:
        db.put(db.redrives, batch_id, {})
    for place in zip(stream_ids, offsets, strict=True):
        if place in db.redrives[batch_id]:
            raise duplicate("redrive_pkey")
        db.put(db.redrives[batch_id], place, None)
        if place[0] not in db.ranges.get(batch_id, {}):
            raise dangling("redrive", "redrive_batch_id_stream_id_fkey")
    return len(stream_ids)


def redriven(db: MemoryDatabase, batch_id: int) -> list[Reject]:
    """The rejects that a re-drive takes and that are still there, by stream and offset."""
    return [db.rejects[place] for place in sorted(db.redrives.get(batch_id, ())) if place in db.rejects]


@verb
def lock_redriven(db: MemoryDatabase, *, batch_id: int) -> Rows:
    return [{"n_rejects": len(redriven(db, batch_id))}]


@verb
def keep_rejects(db: MemoryDatabase, *, attempt_id: int) -> int:
    kept = [row for place, row in db.staged_rejects.get(attempt_id, {}).items() if place in db.rejects]
    for row in kept:
        place = row.stream_id, row.kafka_offset
        db.put(db.rejects, place, db.rejects[place]._replace(step=row.step, reason=row.reason))
    return len(kept)


@verb
def settle_rejects(
    db: MemoryDatabase, *, batch_id: int, attempt_id: int, stream_ids: list[int], offsets: list[int]
) -> Rows:
    staged = db.staged_rejects.get(attempt_id, {})
    written = set(zip(stream_ids, offsets, strict=True))
    n_gone: Counter[tuple[int, int]] = Counter()
    n_written: Counter[tuple[int, int]] = Counter()
    for reject in redriven(db, batch_id):
        place = reject.stream_id, reject.kafka_offset
        if place not in staged:
            db.remove(db.rejects, place)
            n_gone[reject.batch_id, reject.stream_id] += 1
            n_written[reject.batch_id, reject.stream_id] += place in written
    for (owner, stream_id), gone in n_gone.items():
        old, wrote = db.ranges[owner][stream_id], n_written[owner, stream_id]
        ranges.count(
            db,
            old,
            n_rejected=old.n_rejected - gone,
            n_written=old.n_written + wrote,
            n_filtered=old.n_filtered + gone - wrote,
        )
    return [
        {"batch_id": owner, "stream_id": stream_id, "n_gone": gone, "n_written": n_written[owner, stream_id]}
        for (owner, stream_id), gone in n_gone.items()
    ]


@verb
def list_rejects_to_redrive(
    db: MemoryDatabase, *, pipeline: str, of_batch: int | None, reason_like: str | None
) -> Rows:
    taken = {
        place for batch_id, places in db.redrives.items() if db.batches[batch_id].state in OPEN for place in places
    }
    fitting = [
        place
        for place, reject in db.rejects.items()
        if db.streams[place[0]].pipeline == pipeline
        and of_batch in {None, reject.batch_id}
        and (reason_like is None or reason_like.lower() in reject.reason.lower())
        and place not in taken
    ]
    incarnations = _incarnations(db, {stream_id for stream_id, _ in fitting})
    return [
        {"stream_id": stream_id, "kafka_offset": offset, "incarnation": incarnations[stream_id]}
        for stream_id, offset in sorted(fitting, key=lambda place: (incarnations[place[0]], place))
    ]


def _incarnations(db: MemoryDatabase, stream_ids: set[int]) -> dict[int, int]:
    """Streams of one topic and partition, numbered in the order in which they began."""
    numbers: dict[int, int] = {}
    seen: Counter[tuple[str, int]] = Counter()
    for stream_id in sorted(stream_ids):
        place = db.streams[stream_id].topic, db.streams[stream_id].partition
        seen[place] += 1
        numbers[stream_id] = seen[place]
    return numbers
