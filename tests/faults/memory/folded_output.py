"""Statements of the Spark job for a stateful pipeline: it reads states, lets timers come, and inserts the rows that a processor has made."""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Any

from psycopg2.sql import Composed, Identifier

from faults.memory.database import MemoryDatabase
from faults.memory.folding import staged_states
from faults.memory.output import names, put
from faults.memory.registry import Rows, composed
from faults.memory.rows import KeyState, OutputRow, StagedState
from faults.memory.statements import winners
from faults.memory.tables import as_text

_SINKS = "tideline.sinks.postgres"


@composed(_SINKS, "add_expired")
def add_expired(db: MemoryDatabase, *, staging: Identifier) -> int:
    """Do nothing: a staged row in memory has the column always."""
    winners(db, staging, ())
    return -1


@composed(_SINKS, "count_folded")
def count_folded(db: MemoryDatabase, *, staging: Identifier, tasks: list[int], **_: Any) -> Rows:
    found: dict[int, list[tuple[int, bool]]] = {}
    for row in winners(db, staging, tasks):
        found.setdefault(row.stream_id, []).append((row.kafka_offset, bool(row.expired)))
    return [
        {"stream_id": one, "n_rows": len(rows), "n_written": len({offset for offset, expired in rows if not expired})}
        for one, rows in found.items()
    ]


@composed(_SINKS, "insert_folded")
def insert_folded(
    db: MemoryDatabase,
    *,
    staging: Identifier,
    target: Identifier,
    columns: Composed,
    batch_id: int,
    tasks: list[int],
    **_: Any,
) -> int:
    n_inserted = 0
    for row in winners(db, staging, tasks):
        stream, piece = db.streams[row.stream_id], db.ranges[batch_id].get(row.stream_id)
        is_loaded = piece is not None and piece.start <= row.kafka_offset < piece.end
        if stream.pipeline == db.batches[batch_id].pipeline and (row.expired or is_loaded):
            place = (stream.topic_id, stream.partition, row.kafka_offset)
            put(db, target, place, names(columns), OutputRow(row.kafka_offset, batch_id, row.values))
            n_inserted += 1
    return n_inserted


def _shown(db: MemoryDatabase, row: KeyState | StagedState) -> dict[str, Any]:
    stream = db.streams[row.stream_id]
    place = {"key": row.key, "stream_id": row.stream_id, "topic": stream.topic, "partition": stream.partition}
    return {**place, "value": as_text(row.value), "expires_at": row.expires_at, "kafka_offset": row.kafka_offset}


@composed(_SINKS, "select_states")
def select_states(db: MemoryDatabase, *, pipeline: str, keys: list[str]) -> Rows:
    return [_shown(db, db.states[pipeline, key]) for key in keys if (pipeline, key) in db.states]


@composed(_SINKS, "index_staged_states")
def index_staged_states(db: MemoryDatabase, *, staging: Identifier) -> int:
    staged_states(db, staging)
    return -1


@composed(_SINKS, "count_due")
def count_due(
    db: MemoryDatabase,
    *,
    staging: Identifier,
    pipeline: str,
    topics: list[str],
    partitions: list[int],
    reached: list[datetime],
    keeps: list[bool],
    folding: list[int],
    **_: Any,
) -> Rows:
    given = {
        (topic, number): (at, keep) for topic, number, at, keep in zip(topics, partitions, reached, keeps, strict=True)
    }
    found: list[dict[str, Any]] = []
    for stream_id, stream in sorted(db.streams.items()):
        if stream.pipeline == pipeline and (stream.topic, stream.partition) in given:
            at, keep = given[stream.topic, stream.partition]
            if n_keys := len(list(_due(db, staging, stream_id=stream_id, at=at, keeps=keep, folding=folding))):
                place = {"stream_id": stream_id, "topic": stream.topic, "partition": stream.partition}
                found.append({**place, "at": at, "keeps": keep, "n_keys": n_keys})
    return found


@composed(_SINKS, "index_due")
def index_due(db: MemoryDatabase, *, staging: Identifier) -> int:
    staged_states(db, staging)
    return -1


@composed(_SINKS, "select_due")
def select_due(
    db: MemoryDatabase,
    *,
    staging: Identifier,
    part: int,
    n_parts: int,
    at_once: int,
    after_at: datetime | str,
    after_key: str,
    **bound: Any,
) -> Rows:
    if n_parts > 1:
        raise NotImplementedError("Postgres alone knows its hash of a text, and so the part of a key")
    due = sorted(_due(db, staging, **bound), key=_place)
    after = [row for row in due if after_at == "-infinity" or _place(row) > (after_at, after_key)]
    return [
        {"key": row.key, "value": as_text(row.value), "expires_at": row.expires_at, "kafka_offset": row.kafka_offset}
        for row in after[:at_once]
        if part == 0
    ]


def _place(row: KeyState | StagedState) -> Any:
    return row.expires_at, row.key


def _due(
    db: MemoryDatabase, staging: Identifier, *, stream_id: int, at: datetime, keeps: bool, folding: list[int]
) -> Iterator[KeyState | StagedState]:
    changed = [row for row in staged_states(db, staging) if row.phase == 1 and row.task in folding]
    touched = {row.key for row in changed}
    pipeline = db.streams[stream_id].pipeline
    untouched = (row for row in db.states.values() if row.pipeline == pipeline and row.key not in touched)
    rows: Iterator[KeyState | StagedState] = chain(untouched if keeps else (), changed)
    for row in rows:
        if row.stream_id == stream_id and row.value is not None and row.expires_at is not None and row.expires_at <= at:
            yield row
