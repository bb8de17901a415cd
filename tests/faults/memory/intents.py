"""Intents: what an attempt has declared before its outside commit. Seals and settlements of batches of outside sinks."""

from uuid import UUID

from psycopg2.extras import Json

from faults.memory import events
from faults.memory.batches import OPEN, unsealed
from faults.memory.database import SECOND, MemoryDatabase
from faults.memory.refusals import dangling, law
from faults.memory.registry import Rows, verb
from faults.memory.rows import Attempt, Intent


def _attempt(db: MemoryDatabase, attempt_id: int | None) -> Attempt:
    return next(attempt for attempt in db.attempts.values() if attempt.attempt_id == attempt_id)


@verb
def lock_attempt(db: MemoryDatabase, *, attempt_id: int) -> Rows:
    return [{"attempt_id": _attempt(db, attempt_id).attempt_id}]


@verb
def begin_trial(db: MemoryDatabase) -> int:
    db.begin_trial()
    return -1


@verb
def check_now(db: MemoryDatabase) -> int:
    db.check_now()
    return -1


@verb
def undo_trial(db: MemoryDatabase) -> int:
    db.undo_trial()
    return -1


@verb
def store_intent(
    db: MemoryDatabase,
    *,
    attempt_id: int,
    batch_id: int,
    output: str,
    n_rows: int,
    written: Json,
    redriven_streams: list[int],
    redriven_offsets: list[int],
    facts: Json,
    filtered_by_difference: bool,
    position: Json | None,
) -> int:
    batch = db.batches[batch_id]
    holder = db.attempts[batch.attempt] if batch.attempt else None
    holds = holder is not None and holder.attempt_id == attempt_id and holder.fence >= batch.sealed_fence
    if not (batch.outside and batch.state == "writing" and holds):
        raise law(f"batch {batch_id}: only the attempt that holds an outside batch intends to commit it")
    redriven = tuple(redriven_streams), tuple(redriven_offsets)
    new = Intent(
        attempt_id,
        batch_id,
        output,
        n_rows,
        written.adapted,
        *redriven,
        facts=facts.adapted,
        filtered_by_difference=filtered_by_difference,
        position=None if position is None else position.adapted,
        at=db.clock,
    )
    db.put(db.intents, attempt_id, new)
    detail = {"n_rows": n_rows, "output": output}
    events.insert(db, "intend", batch.pipeline, batch_id=batch_id, attempt=batch.attempt, detail=detail)
    return 1


@verb
def list_intents(db: MemoryDatabase, *, batch_id: int) -> Rows:
    found = [(_attempt(db, intent.attempt_id), intent) for intent in db.intents.values() if intent.batch_id == batch_id]
    return [
        {
            "attempt_id": intent.attempt_id,
            "batch_id": batch_id,
            "attempt": attempt.attempt,
            "fence": attempt.fence,
            "output": intent.output,
            "n_rows": intent.n_rows,
            "written": intent.written,
            "redriven_streams": list(intent.redriven_streams),
            "redriven_offsets": list(intent.redriven_offsets),
            "facts": intent.facts,
            "filtered_by_difference": intent.filtered_by_difference,
            "position": intent.position,
            "age_seconds": (db.clock - intent.at) / SECOND,
        }
        for attempt, intent in sorted(found, key=lambda one: -one[0].fence)
    ]


@verb
def find_newest_intent(db: MemoryDatabase, *, pipeline: str, output: str) -> Rows:
    found = [
        (intent.batch_id, _attempt(db, intent.attempt_id).fence)
        for intent in db.intents.values()
        if intent.output == output and db.batches[intent.batch_id].pipeline == pipeline
    ]
    return [{"batch_id": batch_id, "fence": fence} for batch_id, fence in sorted(found)[-1:]]


@verb
def list_unsealed(db: MemoryDatabase, *, batch_id: int) -> Rows:
    batch = db.batches[batch_id]
    fences = unsealed(db, batch_id, batch.sealed_fence) if batch.state in OPEN else []
    return [{"fence": fence} for fence in fences]


@verb
def settle_batch(db: MemoryDatabase, *, batch_id: int, attempt: UUID, written_by: int) -> Rows:
    batch = db.batches.get(batch_id)
    if batch is None or batch.state != "writing" or batch.attempt != attempt:
        return []
    if batch.written_by is not None or _attempt(db, written_by).fence < batch.sealed_fence:
        raise law(f"batch {batch_id}: only what no seal has ruled out is settled, once")
    db.put(db.batches, batch_id, batch._replace(written_by=written_by))
    if written_by not in db.intents or db.intents[written_by].batch_id != batch_id:
        raise dangling("batch", "written_as_intended")
    db.settled.append(batch_id)
    detail = {"committed_by": _attempt(db, written_by).fence}
    events.insert(db, "settle", batch.pipeline, batch_id=batch_id, attempt=attempt, detail=detail)
    return [{"batch_id": batch_id}]


@verb
def seal_batch(db: MemoryDatabase, *, batch_id: int, fence: int) -> Rows:
    batch = db.batches.get(batch_id)
    if batch is None or batch.sealed_fence >= fence or batch.state not in {"writing", "failed"}:
        return []
    db.put(db.batches, batch_id, batch._replace(sealed_fence=fence))
    events.insert(db, "seal", batch.pipeline, batch_id=batch_id, attempt=batch.attempt, detail={"below": fence})
    return [{"batch_id": batch_id}]
