"""The outbox: which published batches have been announced."""

from collections.abc import Sequence

from faults.memory.database import MemoryDatabase, moment
from faults.memory.registry import Rows, verb
from faults.memory.rows import Attempt

_COUNTS = ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")
_TIMES = ("started_at", "ended_at")


@verb
def list_waiting(db: MemoryDatabase, *, pipeline: str) -> Rows:
    return [
        {
            "batch_id": each.batch_id,
            "attempt": db.batches[each.batch_id].attempt,
            "published_at": moment(each.published_at),
            **{name: getattr(each, name) for name in ("n_tries", "dag_id", "run_id", "task_id")},
        }
        for each in sorted(db.outbox.values())
        if each.pipeline == pipeline and each.announced_at is None
    ]


@verb
def take_waiting(
    db: MemoryDatabase, *, batch_ids: Sequence[int], n_tries: Sequence[int], dag_id: str, run_id: str, task_id: str
) -> Rows:
    taken: Rows = []
    for batch_id, seen in sorted(zip(batch_ids, n_tries, strict=True)):
        old = db.outbox.get(batch_id)
        if old is not None and old.announced_at is None and old.n_tries == seen:
            new = old._replace(n_tries=seen + 1, dag_id=dag_id, run_id=run_id, task_id=task_id)
            db.put(db.outbox, batch_id, new)
            taken.append({"batch_id": batch_id})
    return taken


@verb
def confirm_announced(db: MemoryDatabase, *, batch_ids: Sequence[int]) -> int:
    found = [db.outbox[each] for each in set(batch_ids) if each in db.outbox and db.outbox[each].announced_at is None]
    for old in found:
        db.put(db.outbox, old.batch_id, old._replace(announced_at=db.clock))
    return len(found)


@verb
def list_publications(db: MemoryDatabase, *, batch_ids: Sequence[int]) -> Rows:
    rows = [
        {
            "batch_id": batch_id,
            "kind": db.batches[batch_id].kind,
            "attempt": db.batches[batch_id].attempt,
            "published_at": moment(db.outbox[batch_id].published_at),
            "topic": db.streams[stream_id].topic,
            "partition": db.streams[stream_id].partition,
            "start_offset": piece.start,
            "end_offset": piece.end,
            **{name: getattr(piece, name) for name in _COUNTS},
            **{name: moment(getattr(_published_by(db, batch_id), name)) for name in _TIMES},
        }
        for batch_id in sorted(set(batch_ids) & db.outbox.keys())
        for stream_id, piece in db.ranges[batch_id].items()
    ]
    return sorted(rows, key=lambda row: (row["published_at"], row["batch_id"], row["topic"], row["partition"]))


def _published_by(db: MemoryDatabase, batch_id: int) -> Attempt:
    """Return the attempt that published a batch."""
    attempt = db.batches[batch_id].attempt
    assert attempt is not None
    return db.attempts[attempt]
