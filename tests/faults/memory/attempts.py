"""Attempts: who tries to write a batch, and when its last heartbeat was."""

from typing import Any
from uuid import UUID

from faults.memory.batches import of_pipeline
from faults.memory.database import SECOND, MemoryDatabase, moment
from faults.memory.refusals import check, dangling, duplicate
from faults.memory.registry import Rows, verb
from faults.memory.rows import Attempt
from tideline.ledger.versions import of_this_process

_WRITER = ("dag_id", "run_id", "task_id", "try_number", "host", "pid")


def _silent_seconds(db: MemoryDatabase, attempt: Attempt) -> float:
    return (db.clock - attempt.heartbeat_at) / SECOND


@verb
def start_attempt(
    db: MemoryDatabase,
    *,
    batch_id: int,
    fence: int,
    dag_id: str,
    run_id: str,
    task_id: str,
    try_number: int,
    host: str,
    pid: int,
) -> Rows:
    attempt_id, attempt = db.next_id("attempt"), db.new_uuid()
    new = Attempt(
        attempt_id, attempt, batch_id, fence, dag_id, run_id, task_id, try_number, host, pid, db.clock, db.clock
    )
    if fence <= 0:
        raise check("attempt", "attempt_fence_check", str(new))
    if any((a.batch_id, a.fence) == (batch_id, fence) for a in db.attempts.values()):
        raise duplicate("attempt_batch_id_fence_key")
    db.put(db.attempts, attempt, new)
    if batch_id not in db.batches:
        raise dangling("attempt", "attempt_batch_id_fkey")
    return [{"attempt_id": attempt_id, "attempt": attempt, "fence": fence}]


@verb
def end_attempt(db: MemoryDatabase, *, attempt: UUID, outcome: str, problem: str | None) -> int:
    old = db.attempts.get(attempt)
    if old is None or old.ended_at is not None:
        return 0
    db.put(db.attempts, attempt, old._replace(ended_at=db.clock, outcome=outcome, problem=problem))
    return 1


@verb
def beat(db: MemoryDatabase, *, attempt: UUID) -> Rows:
    old = db.attempts.get(attempt)
    if old is None or db.batches[old.batch_id].attempt != attempt:
        return []
    n_read = sum(count.n_read for count in db.staged_counts.get(old.attempt_id, {}).values())
    progressed_at = db.clock if n_read > old.n_read else old.progressed_at
    new = old._replace(heartbeat_at=db.clock, n_read=max(old.n_read, n_read), progressed_at=progressed_at)
    db.put(db.attempts, attempt, new)
    return [{"attempt_id": old.attempt_id}]


@verb
def lock_release(db: MemoryDatabase) -> Rows:
    return [{"n_applied": len(of_this_process())}]


@verb
def lock_batch(db: MemoryDatabase, *, batch_id: int) -> Rows:
    batch = db.batches.get(batch_id)
    if batch is None:
        return []
    newest = None if batch.attempt is None else db.attempts[batch.attempt]
    return [
        {
            **{
                name: getattr(batch, name)
                for name in (
                    "batch_id",
                    "identity",
                    "pipeline",
                    "kind",
                    "state",
                    "fence",
                    "attempt",
                    "outside",
                    "stateful",
                )
            },
            **{name: newest and getattr(newest, name) for name in ("attempt_id", *_WRITER)},
            "silent_seconds": None if newest is None else _silent_seconds(db, newest),
        }
    ]


@verb
def view_batch_attempts(db: MemoryDatabase, *, batch_id: int) -> Rows:
    names = ("fence", "attempt", *_WRITER, "n_read", "outcome", "problem")
    times = ("started_at", "heartbeat_at", "progressed_at", "ended_at")
    found = (attempt for attempt in db.attempts.values() if attempt.batch_id == batch_id)
    return [
        {name: getattr(attempt, name) for name in names}
        | {name: None if (clock := getattr(attempt, name)) is None else moment(clock) for name in times}
        for attempt in sorted(found, key=lambda attempt: attempt.fence)
    ]


def _written(db: MemoryDatabase, pipeline: str) -> list[Attempt]:
    """Return the attempts of batches in the state `writing`."""
    return [db.attempts[batch.attempt] for batch in of_pipeline(db, pipeline, "writing") if batch.attempt is not None]


@verb
def list_being_written(db: MemoryDatabase, *, pipeline: str, stale_seconds: float) -> Rows:
    return [
        {"batch_id": attempt.batch_id}
        for attempt in _written(db, pipeline)
        if _silent_seconds(db, attempt) <= stale_seconds
    ]


@verb
def list_silent_claims(db: MemoryDatabase, *, pipeline: str, silent_seconds: float) -> Rows:
    names = ("batch_id", "attempt", "fence", "host", "pid")
    found: list[dict[str, Any]] = []
    for attempt in _written(db, pipeline):
        silent = _silent_seconds(db, attempt)
        if silent > silent_seconds:
            found.append({**{name: getattr(attempt, name) for name in names}, "silent_seconds": silent})
    return found
