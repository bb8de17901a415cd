"""The state of keys: which batches are folded, how far each stream is, and what is kept for each key."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from psycopg2.extras import Json
from psycopg2.sql import Identifier

from faults.memory.batches import OPEN
from faults.memory.database import SECOND, MemoryDatabase, moment
from faults.memory.refusals import law, refusal, unmet
from faults.memory.registry import Rows, Statement, composed, verb
from faults.memory.rows import Folded, KeyState, Position, StagedState, Undo

_QUERIES = "tideline.ledger"


def staged_states(db: MemoryDatabase, staging: Identifier) -> list[StagedState]:
    """Return the rows of a table of staged states."""
    name = staging.strings[-1]
    if name not in db.staged_states:
        raise refusal("undefined_table", f'relation "tideline_staging.{name}" does not exist')
    return db.staged_states[name]


def _copy_states(db: MemoryDatabase, *, staging: str, rows: list[StagedState]) -> int:
    db.put(db.staged_states, staging, [*staged_states(db, Identifier("tideline_staging", staging)), *rows])
    return len(rows)


COPY_STATES = Statement("copy_states", _copy_states, None)
"""The COPY of an executor into a table of staged states."""


@composed(_QUERIES, "create_state_staging")
def create_state_staging(db: MemoryDatabase, *, staging: Identifier) -> int:
    db.put(db.staged_states, staging.strings[-1], [])
    return -1


def _won(rows: list[StagedState], folding: list[int], expiring: list[int]) -> Iterator[StagedState]:
    return (row for row in rows if row.task in (folding if row.phase == 1 else expiring))


@composed(_QUERIES, "count_staged_states")
def count_staged_states(db: MemoryDatabase, *, staging: Identifier, folding: list[int], expiring: list[int]) -> Rows:
    keys: dict[int, list[str]] = {}
    for row in _won(staged_states(db, staging), folding, expiring):
        keys.setdefault(row.phase, []).append(row.key)
    return [{"phase": phase, "n_rows": len(found), "n_keys": len(set(found))} for phase, found in sorted(keys.items())]


@composed(_QUERIES, "discard_staged_states")
def discard_staged_states(db: MemoryDatabase, *, staging: Identifier, folding: list[int], expiring: list[int]) -> int:
    rows = staged_states(db, staging)
    won = list(_won(rows, folding, expiring))
    later = {row.key for row in won if row.phase == 2}
    kept = [row for row in won if row.phase == 2 or row.key not in later]
    db.put(db.staged_states, staging.strings[-1], kept)
    return len(rows) - len(kept)


@composed(_QUERIES, "analyze_staged_states")
def analyze_staged_states(db: MemoryDatabase, *, staging: Identifier) -> int:
    staged_states(db, staging)
    return -1


@composed(_QUERIES, "count_kept_states")
def count_kept_states(db: MemoryDatabase, *, staging: Identifier) -> Rows:
    return [{"n_keys": len(staged_states(db, staging))}]


@composed(_QUERIES, "delete_states")
def delete_states(db: MemoryDatabase, *, staging: Identifier, pipeline: str) -> int:
    gone = [
        (pipeline, row.key)
        for row in staged_states(db, staging)
        if row.value is None and (pipeline, row.key) in db.states
    ]
    for key in gone:
        _keep(db, key)
        db.remove(db.states, key)
    return len(gone)


@composed(_QUERIES, "put_states")
def put_states(db: MemoryDatabase, *, staging: Identifier, pipeline: str, batch_id: int) -> int:
    rows = [row for row in staged_states(db, staging) if row.value is not None]
    for row in rows:
        _keep(db, (pipeline, row.key))
        new = KeyState(pipeline, row.key, row.stream_id, row.value, row.expires_at, row.kafka_offset, batch_id)
        if db.streams[row.stream_id].pipeline != pipeline:
            raise law("INSERT of tideline.state is refused: a state names its batch, and a stream of its pipeline")
        db.put(db.states, (pipeline, row.key), new)
    return len(rows)


@verb
def reset_states(db: MemoryDatabase, *, pipeline: str, batch_id: int, stream_ids: list[int]) -> int:
    anew = {(db.streams[n].topic, db.streams[n].partition) for n in stream_ids}
    gone = [
        key
        for key, row in db.states.items()
        if row.pipeline == pipeline
        and row.batch_id != batch_id
        and (db.streams[row.stream_id].topic, db.streams[row.stream_id].partition) in anew
    ]
    for key in gone:
        _keep(db, key)
        db.remove(db.states, key)
    return len(gone)


def _keep(db: MemoryDatabase, key: tuple[str, str]) -> None:
    """Write the undo of a state, as the trigger does."""
    batch_id = _folding(db, key[0])
    if batch_id is None:
        raise law("UPDATE of tideline.state is refused: a state changes with the batch that is published")
    if (batch_id, key[1]) not in db.state_undo:
        was = db.states.get(key)
        before = (None,) * 5 if was is None else was[2:]
        db.put(db.state_undo, (batch_id, key[1]), Undo(batch_id, key[1], was is not None, *before))


def _folding(db: MemoryDatabase, pipeline: str) -> int | None:
    folded = (row.batch_id for row in db.state_batches.values() if row.pipeline == pipeline)
    return next((batch_id for batch_id in folded if db.batches[batch_id].state == "writing"), None)


@verb
def find_newest_fold(db: MemoryDatabase, *, pipeline: str) -> Rows:
    return [{"seq": max((row.seq for row in db.state_batches.values() if row.pipeline == pipeline), default=0)}]


@verb
def fold_batch(
    db: MemoryDatabase, *, batch_id: int, pipeline: str, after: int, processor: str, n_keys: int, n_expired: int
) -> int:
    if any(row.pipeline == pipeline and row.seq > after for row in db.state_batches.values()):
        return 0
    batch = db.batches[batch_id]
    if not (batch.stateful and batch.state == "writing" and batch.pipeline == pipeline):
        raise law(f"batch {batch_id}: only a stateful batch that is being written is folded")
    db.put(db.state_batches, batch_id, Folded(batch_id, pipeline, after + 1, processor, n_keys, n_expired, "kept"))
    return 1


# Positions -------------------------------------------------------------------------------------------------------


def _since(db: MemoryDatabase, stream_id: int) -> int:
    position = db.positions.get(stream_id)
    return db.streams[stream_id].start_offset if position is None else position.next_offset


def _is_next(db: MemoryDatabase, stream_id: int, start: int) -> bool:
    reached = _since(db, stream_id)
    for piece in db.covering(stream_id, reached, start) if reached < start else ():
        if piece.start <= reached and piece.batch_id is None and piece.hole != "rewound":
            reached = min(piece.end, start)
    return reached == start


def _has_gap(db: MemoryDatabase, stream_id: int, start: int) -> bool:
    position = db.positions.get(stream_id)
    if position is not None and position.batch_id is not None:
        return position.next_offset < start
    own = db.streams[stream_id]
    place = (own.pipeline, own.topic, own.partition)
    folded = (db.streams[p.stream_id] for p in db.positions.values() if p.batch_id is not None)
    return any((s.pipeline, s.topic, s.partition) == place for s in folded)


@verb
def list_positions(db: MemoryDatabase, *, batch_id: int) -> Rows:
    return [
        {
            "stream_id": stream_id,
            "topic": db.streams[stream_id].topic,
            "partition": db.streams[stream_id].partition,
            "next_offset": _since(db, stream_id),
            "max_time": None if (position := db.positions.get(stream_id)) is None else position.max_time,
            "version": 0 if position is None else position.version,
            "start_offset": piece.start,
            "is_next": _is_next(db, stream_id, piece.start),
            "has_gap": _has_gap(db, stream_id, piece.start),
        }
        for stream_id, piece in sorted(db.ranges[batch_id].items())
    ]


@verb
def list_plans(db: MemoryDatabase, *, batch_id: int) -> Rows:
    found = []
    for stream_id, own in db.ranges[batch_id].items():
        for other_id, ranges in db.ranges.items():
            other = ranges.get(stream_id)
            if other is not None and (other_id == batch_id or not other.reserves):
                bounds = (max(own.start, other.start), min(own.end, other.end))
                found.append((stream_id, *bounds, moment(db.batches[other_id].planned_at)))
    names = ("stream_id", "start_offset", "end_offset", "planned_at")
    return [dict(zip(names, row, strict=True)) for row in sorted(found) if row[1] < row[2]]


@verb
def lock_positions(db: MemoryDatabase, *, batch_id: int) -> Rows:
    return [{"stream_id": stream_id} for stream_id in sorted(db.ranges[batch_id]) if stream_id in db.positions]


@verb
def move_positions(db: MemoryDatabase, *, batch_id: int, stream_ids: list[int], max_times: list[datetime]) -> int:
    times = dict(zip(stream_ids, max_times, strict=True))
    n_new = 0
    for stream_id, piece in sorted(db.ranges[batch_id].items()):
        old = db.positions.get(stream_id)
        since = _since(db, stream_id)
        if not _is_next(db, stream_id, piece.start):
            raise unmet(f"state of stream {stream_id}: it is folded up to {since}, the range begins at {piece.start}")
        pipeline = db.batches[batch_id].pipeline
        latest = max((time for time in (old and old.max_time, times.get(stream_id)) if time), default=None)
        version = 1 if old is None else old.version + 1
        db.put(db.positions, stream_id, Position(stream_id, pipeline, piece.end, latest, version, batch_id))
        before = (since, None, None) if old is None else (since, old.max_time, old.batch_id)
        db.put(db.position_undo, (batch_id, stream_id), (batch_id, stream_id, *before))
        n_new += old is None
    return n_new


# Columns and order -----------------------------------------------------------------------------------------------


@verb
def find_state_columns(db: MemoryDatabase, *, pipeline: str) -> Rows:
    if pipeline not in db.state_columns:
        return []
    key, columns = db.state_columns[pipeline]
    has_states = any(row.pipeline == pipeline for row in db.states.values()) or any(
        row.pipeline == pipeline and row.undo == "kept" for row in db.state_batches.values()
    )
    return [{"key_columns": key, "columns": columns, "has_states": has_states}]


@verb
def keep_state_columns(db: MemoryDatabase, *, pipeline: str, key_columns: list[str], columns: Json) -> int:
    db.put(db.state_columns, pipeline, (key_columns, columns.adapted))
    return 1


@verb
def list_lower_bounds(db: MemoryDatabase, *, batch_ids: list[int]) -> Rows:
    rows = [(piece.stream_id, piece.start, n) for n in batch_ids for piece in db.ranges[n].values()]
    return [{"stream_id": stream_id, "batch_id": n, "start_offset": start} for stream_id, start, n in sorted(rows)]


@verb
def list_rewound(db: MemoryDatabase, *, pipeline: str) -> Rows:
    found = []
    for stream_id, pieces in sorted(db.coverage.items()):
        for hole in sorted(pieces.values(), key=lambda piece: piece.start):
            if db.streams[stream_id].pipeline == pipeline and hole.hole == "rewound":
                start = hole.start
                for taken in db.reserving(stream_id, hole.start, hole.end):
                    found.append((stream_id, start, taken.start))
                    start = taken.end
                found.append((stream_id, start, hole.end))
    names = ("stream_id", "start_offset", "end_offset")
    return [dict(zip(names, row, strict=True)) for row in found if row[1] < row[2]]


@verb
def list_loaded_unfolded(db: MemoryDatabase, *, pipeline: str) -> Rows:
    found: list[dict[str, Any]] = []
    for stream_id, stream in sorted(db.streams.items()):
        if stream.pipeline == pipeline and stream.state != "retired":
            loaded = [c for c in db.coverage[stream_id].values() if c.batch_id and c.end > _since(db, stream_id)]
            for first in sorted(loaded, key=lambda piece: piece.start)[:1]:
                place = {"topic": stream.topic, "partition": stream.partition}
                found.append({**place, "start_offset": first.start, "end_offset": first.end})
    return found


@verb
def list_before(db: MemoryDatabase, *, pipeline: str, batch_id: int) -> Rows:
    own = db.ranges[batch_id]
    found: list[dict[str, Any]] = []
    for other_id, other in sorted(db.batches.items()):
        theirs = db.ranges[other_id]
        if (
            other.pipeline == pipeline
            and other.state in OPEN
            and any(piece.start < own[stream_id].start for stream_id, piece in theirs.items() if stream_id in own)
        ):
            newest = None if other.attempt is None else db.attempts[other.attempt]
            sign = other.planned_at if newest is None else newest.ended_at or newest.heartbeat_at
            tried = {name: newest and getattr(newest, name) for name in ("task_id", "try_number", "host", "pid")}
            run = {"state": other.state, "dag_id": other.dag_id, "run_id": other.run_id}
            found.append({"batch_id": other_id, **run, **tried, "silent_seconds": (db.clock - sign) / SECOND})
    return found
