"""The history: written by the tables themselves, with actor and reason, and never changed except by pruning."""

import re
from typing import Any
from uuid import UUID

from psycopg2.extras import Json

from faults.memory.database import SECOND, MemoryDatabase, moment
from faults.memory.refusals import check, dangling, law
from faults.memory.registry import Rows, verb
from faults.memory.rows import Event, KnownPipeline

_UNFINISHED = {"planned", "writing", "failed", "published"}
_ADDED = {"retry", "refuse", "supersede partly", "recreate table", "add column"}
"""What no table shows, and no trigger records."""
_PIPELINE = re.compile(r"[a-z][a-z0-9_]{0,62}")
DAY = 24 * 3600 * SECOND


def insert(
    db: MemoryDatabase,
    action: str,
    pipeline: str,
    *,
    batch_id: int | None = None,
    stream_id: int | None = None,
    attempt: UUID | None = None,
    from_state: str | None = None,
    to_state: str | None = None,
    detail: dict[str, Any] | None = None,
) -> None:
    event_id = db.next_id("event")
    detail = detail or {}
    if db.reason:
        detail = {"reason": db.reason} | detail
    event = Event(
        event_id, db.clock, db.actor, action, pipeline, batch_id, stream_id, attempt, from_state, to_state, detail
    )
    db.put(db.events, event_id, event)


@verb
def record_event(
    db: MemoryDatabase,
    *,
    action: str,
    pipeline: str,
    batch_id: int | None,
    stream_id: int | None,
    attempt: UUID | None,
    detail: Json,
) -> int:
    if action not in _ADDED:
        raise law(f'INSERT of "{action}" into tideline.event is refused: it is written with what it records')
    insert(db, action, pipeline, batch_id=batch_id, stream_id=stream_id, attempt=attempt, detail=detail.adapted)
    if pipeline not in db.pipelines:
        raise dangling("event", "event_pipeline_fkey")
    if batch_id is not None and batch_id not in db.batches:
        raise dangling("event", "event_batch_id_fkey")
    if stream_id is not None and stream_id not in db.streams:
        raise dangling("event", "event_stream_id_fkey")
    return 1


@verb
def prune_events(db: MemoryDatabase, *, pipeline: str, days: int) -> Rows:
    old = [
        event.event_id
        for event in db.events.values()
        if event.pipeline == pipeline
        and event.at < db.now - days * DAY
        and (event.batch_id is None or db.batches[event.batch_id].state not in _UNFINISHED)
    ]
    for event_id in old:
        db.remove(db.events, event_id)
    if old:
        insert(db, "prune events", pipeline, detail={"days": days, "n_events": len(old)})
    return [{"n_events": len(old)}]


@verb
def set_actor(db: MemoryDatabase, *, actor: str) -> Rows:
    db.actor = actor
    return [{"set_config": actor}]


@verb
def set_reason(db: MemoryDatabase, *, reason: str) -> Rows:
    db.reason = reason
    return [{"set_config": reason}]


@verb
def forbid_nested_loops(_: MemoryDatabase) -> int:
    return -1  # like every statement that touches no rows


@verb
def allow_nested_loops(_: MemoryDatabase) -> int:
    return -1  # like every statement that touches no rows


@verb
def lock_pipeline(db: MemoryDatabase, *, pipeline: str, idle_ms: int) -> Rows:
    if pipeline not in db.pipelines:
        if not _PIPELINE.fullmatch(pipeline):
            raise check("pipeline", "pipeline_pipeline_check", pipeline)
        db.put(db.pipelines, pipeline, KnownPipeline(db.now, None))
    return [{"now": moment(db.clock)}]


@verb
def find_pipeline(db: MemoryDatabase, *, pipeline: str) -> Rows:
    known = db.pipelines.get(pipeline)
    return [] if known is None else [{"planned_before": known.created_at < db.now}]
