"""Batches and their states: the permitted transitions, and the conditions of each."""

from typing import Any
from uuid import UUID

from faults.memory import events
from faults.memory.database import SECOND, MemoryDatabase
from faults.memory.refusals import check, dangling, law, unmet
from faults.memory.registry import Rows, verb
from faults.memory.rows import Batch, Outgoing

OPEN = ("planned", "writing", "failed")
KINDS = ("live", "backfill", "replay", "redrive")
"""In the order of the SQL type."""
PUBLISHED = ("published", "advanced", "superseded")
FINISHED = ("advanced", "superseded", "abandoned")
_WAYS = {
    "planned>writing",
    "writing>writing",
    "failed>writing",
    "writing>failed",
    "writing>published",
    "published>advanced",
    "planned>abandoned",
    "failed>abandoned",
    "published>superseded",
    "advanced>superseded",
}
_ACTIONS = {
    "writing": "claim",
    "failed": "fail",
    "published": "publish",
    "advanced": "advance",
    "abandoned": "abandon",
    "superseded": "supersede",
}


def of_pipeline(db: MemoryDatabase, pipeline: str, *states: str) -> list[Batch]:
    """Return the batches of a pipeline in one of these states, by id."""
    return [batch for batch in db.batches.values() if batch.pipeline == pipeline and batch.state in states]


@verb
def plan_batches(
    db: MemoryDatabase,
    *,
    pipeline: str,
    kind: str,
    dag_id: str,
    run_id: str,
    supersedes: int | None,
    reason: str | None,
    outside: bool,
    stateful: bool,
    n_batches: int,
) -> Rows:
    run = (pipeline, dag_id, run_id)
    given = sum((b.pipeline, b.dag_id, b.run_id) == run for b in db.batches.values())
    planned = []
    for seq in range(given, given + n_batches):
        batch_id = db.next_id("batch")
        named = (dag_id, run_id, seq, supersedes, reason, outside, None, 0, stateful)
        _insert(db, Batch(batch_id, db.new_uuid(), pipeline, str(kind), "planned", 0, None, *named, planned_at=db.now))
        planned.append({"batch_id": batch_id})
    return planned


def _insert(db: MemoryDatabase, batch: Batch) -> None:
    if batch.kind in {"replay", "redrive"} and any(p.pipeline == batch.pipeline for p in db.positions.values()):
        raise law(f"pipeline {batch.pipeline} has a state: a {batch.kind} would load records that are folded already")
    if batch.stateful and (batch.outside or batch.kind in {"replay", "redrive"}):
        raise check("batch", "state_is_folded_in_order", str(batch))
    if batch.reason == "":
        raise check("batch", "batch_reason_check", str(batch))
    db.put(db.batches, batch.batch_id, batch)
    db.put(db.ranges, batch.batch_id, {})
    if batch.pipeline not in db.pipelines:
        raise dangling("batch", "batch_pipeline_fkey")
    if batch.supersedes is not None and batch.supersedes not in db.batches:
        raise dangling("batch", "batch_supersedes_fkey")
    events.insert(db, "plan", batch.pipeline, batch_id=batch.batch_id, to_state="planned")


def move(db: MemoryDatabase, old: Batch, **changes: Any) -> Rows:
    """Change the state of a batch, with all that follows from it."""
    new = old._replace(**changes)
    _check(db, old, new)
    _check_outside(db, old, new)
    _check_folded(db, old, new)
    db.put(db.batches, old.batch_id, new)
    events.insert(
        db,
        _ACTIONS[new.state],
        new.pipeline,
        batch_id=new.batch_id,
        attempt=new.attempt,
        from_state=old.state,
        to_state=new.state,
    )
    if new.state == "published":
        db.put(db.outbox, new.batch_id, Outgoing(new.batch_id, new.pipeline, db.clock))
    if new.state == "abandoned" or (new.stateful and new.state == "superseded"):
        for stream_id, piece in db.ranges[new.batch_id].items():
            if piece.reserves:
                db.put(db.ranges[new.batch_id], stream_id, piece._replace(reserves=False))
                db.remove(db.reserved[stream_id], new.batch_id)
    if new.state in {"published", "abandoned"}:
        for stream_id, piece in db.ranges[new.batch_id].items():
            if piece.alone:
                db.put(db.ranges[new.batch_id], stream_id, piece._replace(alone=False))
    return [{"batch_id": new.batch_id}]


def _check(db: MemoryDatabase, old: Batch, new: Batch) -> None:
    """Check a change of a batch. The columns that planning sets are not checked here: no verb can change them."""
    name = f"batch {old.batch_id}"
    if f"{old.state}>{new.state}" not in _WAYS:
        raise law(f"{name}: no way from {old.state} to {new.state}")
    if new.state == "writing" and (new.fence != old.fence + 1 or new.attempt == old.attempt):
        raise law(f"{name}: a claim raises the fence by one and names a new attempt")
    if new.state != "writing" and (new.fence, new.attempt) != (old.fence, old.attempt):
        raise law(f"{name}: only a claim changes the attempt")
    if new.state == "published" and any(piece.n_read is None for piece in db.ranges[new.batch_id].values()):
        raise unmet(f"{name}: a batch without counts cannot be published")
    if new.state == "advanced" and _is_waiting(db, new):
        raise unmet(f"{name}: not every head has passed it")
    if new.attempt is not None and new.attempt not in db.attempts:
        raise dangling("batch", "batch_attempt_fkey")


def _check_outside(db: MemoryDatabase, old: Batch, new: Batch) -> None:
    """Check what holds for batches of outside sinks when their state changes."""
    if new.state == "abandoned" and unsealed(db, new.batch_id, new.sealed_fence):
        raise law(f"batch {old.batch_id}: it may be committed outside, and is not sealed")
    if new.outside and (new.written_by is None if new.state in PUBLISHED else new.written_by is not None):
        raise check("batch", "outside_names_its_writer", str(new))


def _check_folded(db: MemoryDatabase, old: Batch, new: Batch) -> None:
    """Check what holds for stateful batches when their state changes."""
    if not new.stateful:
        return
    positions = (db.positions.get(stream_id) for stream_id in db.ranges[new.batch_id])
    if new.state == "published" and any(p is None or p.batch_id != new.batch_id for p in positions):
        raise unmet(f"batch {old.batch_id}: it is published with the state of all its records, or not at all")
    folded = db.state_batches.get(new.batch_id)
    if new.state == "superseded" and (folded is None or folded.undo != "applied"):
        raise law(f"batch {old.batch_id}: it is folded into the state, which was not rewound")


def unsealed(db: MemoryDatabase, batch_id: int, sealed_fence: int) -> list[int]:
    """Return the fences of the intents that no seal rules out, newest first."""
    of = {attempt.attempt_id: attempt.fence for attempt in db.attempts.values() if attempt.batch_id == batch_id}
    found = (of[intent.attempt_id] for intent in db.intents.values() if intent.batch_id == batch_id)
    return sorted((fence for fence in found if fence >= sealed_fence), reverse=True)


def _is_waiting(db: MemoryDatabase, batch: Batch) -> bool:
    """Return whether it is a live batch that a head has not passed."""
    return batch.kind == "live" and any(
        db.streams[stream_id].next_offset < piece.end and db.streams[stream_id].state != "retired"
        for stream_id, piece in db.ranges[batch.batch_id].items()
    )


def in_state(db: MemoryDatabase, batch_id: int, *states: str) -> Batch | None:
    """Return a batch if it is in one of these states."""
    batch = db.batches.get(batch_id)
    return batch if batch is not None and batch.state in states else None


@verb
def claim_batch(db: MemoryDatabase, *, batch_id: int, fence: int, attempt: UUID) -> Rows:
    batch = in_state(db, batch_id, *OPEN)
    if batch is None or batch.fence != fence - 1:
        return []
    return move(db, batch, state="writing", fence=fence, attempt=attempt)


@verb
def fail_batch(db: MemoryDatabase, *, batch_id: int, attempt: UUID) -> Rows:
    batch = in_state(db, batch_id, "writing")
    return [] if batch is None or batch.attempt != attempt else move(db, batch, state="failed")


@verb
def publish_batch(db: MemoryDatabase, *, batch_id: int, attempt: UUID) -> Rows:
    batch = in_state(db, batch_id, "writing")
    return [] if batch is None or batch.attempt != attempt else move(db, batch, state="published")


@verb
def abandon_batch(db: MemoryDatabase, *, batch_id: int) -> Rows:
    batch = in_state(db, batch_id, "planned", "failed")
    return [] if batch is None else move(db, batch, state="abandoned")


@verb
def advance_batches(db: MemoryDatabase, *, batch_ids: list[int]) -> Rows:
    moved: Rows = []
    for batch_id in sorted(set(batch_ids)):
        batch = in_state(db, batch_id, "published")
        if batch is not None and not _is_waiting(db, batch):
            moved += move(db, batch, state="advanced")
    return moved


@verb
def supersede_batches(db: MemoryDatabase, *, batch_ids: list[int]) -> Rows:
    moved: Rows = []
    for batch_id in sorted(set(batch_ids)):
        batch = in_state(db, batch_id, "published", "advanced")
        if batch is not None and not _owns_anything(db, batch):
            moved += move(db, batch, state="superseded")
    return moved


def _owns_anything(db: MemoryDatabase, batch: Batch) -> bool:
    return any(
        piece.batch_id == batch.batch_id
        for stream_id in db.ranges[batch.batch_id]
        for piece in db.coverage[stream_id].values()
    )


@verb
def find_batch(db: MemoryDatabase, *, batch_id: int) -> Rows:
    batch = db.batches.get(batch_id)
    names = ("batch_id", "pipeline", "kind", "state", "attempt", "fence", "outside", "stateful", "dag_id", "run_id")
    return [] if batch is None else [{name: getattr(batch, name) for name in names}]


@verb
def list_open_batches(db: MemoryDatabase, *, pipeline: str) -> Rows:
    names = ("batch_id", "kind", "state", "dag_id", "run_id")
    found = sorted(of_pipeline(db, pipeline, *OPEN), key=lambda batch: (KINDS.index(batch.kind), batch.batch_id))
    return [{name: getattr(b, name) for name in names} | {"for_heads": _is_for_heads(db, b)} for b in found]


def _is_for_heads(db: MemoryDatabase, batch: Batch) -> bool:
    return batch.kind == "live" or (
        batch.kind == "backfill"
        and any(
            piece.end > db.streams[stream_id].next_offset and db.streams[stream_id].state != "retired"
            for stream_id, piece in db.ranges[batch.batch_id].items()
        )
    )


@verb
def list_unclaimed(db: MemoryDatabase, *, pipeline: str, grace_seconds: float, stale_seconds: float) -> Rows:
    writing = of_pipeline(db, pipeline, "writing")
    alive = [attempt for b in writing if db.clock - (attempt := db.writing(b)).heartbeat_at <= stale_seconds * SECOND]
    runs = [db.runs.get((pipeline, attempt.dag_id, attempt.run_id), {}) for attempt in alive]
    return [
        {"batch_id": batch.batch_id}
        for batch in of_pipeline(db, pipeline, *OPEN)
        if batch.kind == "live"
        and not (batch.state == "planned" and batch.planned_at >= db.clock - grace_seconds * SECOND)
        and not any(batch.batch_id in run for run in runs)
    ]


@verb
def list_published_batches(db: MemoryDatabase, *, pipeline: str) -> Rows:
    return [{"batch_id": batch.batch_id} for batch in of_pipeline(db, pipeline, "published")]


@verb
def list_unfinished(db: MemoryDatabase, *, batch_ids: list[int]) -> Rows:
    found = (db.batches[batch_id] for batch_id in sorted(set(batch_ids)) if batch_id in db.batches)
    return [{"batch_id": batch.batch_id} for batch in found if batch.state not in FINISHED]


@verb
def list_batches_of_stopped(db: MemoryDatabase, *, pipeline: str) -> Rows:
    return [
        {"batch_id": batch.batch_id}
        for batch in of_pipeline(db, pipeline, *OPEN)
        if batch.kind == "live"
        and any(db.streams[stream_id].state != "active" for stream_id in db.ranges[batch.batch_id])
    ]


@verb
def list_open_on_streams(
    db: MemoryDatabase, *, stream_ids: list[int], starts: list[int], ends: list[int], kinds: list[str]
) -> Rows:
    found = []
    for batch_id, batch in db.batches.items():
        if batch.state in OPEN and batch.kind in kinds:
            for stream_id, start, end in zip(stream_ids, starts, ends, strict=True):
                piece = db.ranges[batch_id].get(stream_id)
                if piece and piece.start < end and start < piece.end:
                    found.append(batch_id)
    return [{"batch_id": batch_id} for batch_id in sorted(set(found))]
