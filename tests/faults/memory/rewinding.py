"""Rewinds: undo batches of a stateful pipeline from the newest one back, and leave their offsets to be loaded again."""

from psycopg2.sql import Identifier

from faults.memory import events, output
from faults.memory.batches import in_state, move
from faults.memory.coverage import check_left, insert, leave
from faults.memory.database import MemoryDatabase
from faults.memory.refusals import law
from faults.memory.registry import Rows, composed, verb
from faults.memory.rows import Folded, KeyState, Position, Rewind, Undo


def _folded(db: MemoryDatabase, pipeline: str, *, after: int = 0) -> list[Folded]:
    """Return the batches that are folded and were not rewound, newest first."""
    found = (row for row in db.state_batches.values() if row.pipeline == pipeline)
    return sorted((row for row in found if row.undo != "applied" and row.seq > after), key=lambda row: -row.seq)


def _undoing(db: MemoryDatabase, pipeline: str) -> int | None:
    """Return the batch whose undo this transaction has to apply next."""
    if not db.is_rewinding(pipeline):
        return None
    return next((row.batch_id for row in _folded(db, pipeline) if row.undo == "kept"), None)


@verb
def find_folded(db: MemoryDatabase, *, pipeline: str, batch_id: int) -> Rows:
    return [{"seq": row.seq} for row in _folded(db, pipeline) if row.batch_id == batch_id]


@verb
def list_folded(db: MemoryDatabase, *, pipeline: str, after: int) -> Rows:
    return [
        {
            "batch_id": row.batch_id,
            "seq": row.seq,
            "undo": row.undo,
            "stream_id": stream_id,
            "topic": db.streams[stream_id].topic,
            "partition": db.streams[stream_id].partition,
            "start_offset": piece.start,
            "end_offset": piece.end,
        }
        for row in _folded(db, pipeline, after=after)
        for stream_id, piece in sorted(db.ranges[row.batch_id].items())
    ]


@verb
def begin_rewind(db: MemoryDatabase, *, pipeline: str, to_batch: int | None, reason: str) -> Rows:
    rewind_id = db.next_id("rewind")
    db.put(db.rewinds, rewind_id, Rewind(rewind_id, pipeline, to_batch, reason, db.actor, db.transaction))
    events.insert(db, "rewind", pipeline, batch_id=to_batch, detail={"reason": reason})
    return [{"rewind_id": rewind_id}]


@verb
def undo_states(db: MemoryDatabase, *, pipeline: str, batch_id: int) -> int:
    undo = [row for row in db.state_undo.values() if row.batch_id == batch_id]
    gone = [(pipeline, row.key) for row in undo if not row.existed and (pipeline, row.key) in db.states]
    # Postgres asks the triggers of the update before those of the insert.
    restored = sorted((row for row in undo if row.existed), key=lambda row: (pipeline, row.key) not in db.states)
    for key in gone:
        _check_order(db, "DELETE", pipeline, batch_id)
        db.remove(db.states, key)
    for row in restored:
        was = _before(row, pipeline)
        _check_order(db, "UPDATE" if (pipeline, row.key) in db.states else "INSERT", pipeline, batch_id)
        db.put(db.states, (pipeline, row.key), was)
    return len(restored)


def _check_order(db: MemoryDatabase, how: str, pipeline: str, batch_id: int) -> None:
    undoing = _undoing(db, pipeline)
    if undoing is None:
        raise law(f"{how} of tideline.state is refused: a state changes with the batch that is published")
    if undoing != batch_id:
        raise law(f"{how} of tideline.state is refused: a rewind goes back from batch to batch")


def _before(row: Undo, pipeline: str) -> KeyState:
    assert row.stream_id is not None, row
    assert row.kafka_offset is not None, row
    assert row.of_batch is not None, row
    return KeyState(pipeline, row.key, row.stream_id, row.value, row.expires_at, row.kafka_offset, row.of_batch)


@verb
def undo_positions(db: MemoryDatabase, *, batch_id: int) -> int:
    undo = [row for row in db.position_undo.values() if row[0] == batch_id and row[1] in db.positions]
    for _, stream_id, next_offset, max_time, of_batch in undo:
        old = db.positions[stream_id]
        if old.batch_id != _undoing(db, old.pipeline) or old.batch_id != batch_id:
            raise law(f"state of stream {stream_id}: only a rewind goes back, and from batch to batch")
        new = Position(stream_id, old.pipeline, next_offset, max_time, old.version + 1, of_batch)
        db.put(db.positions, stream_id, new)
    return len(undo)


@verb
def apply_undo(db: MemoryDatabase, *, batch_id: int) -> int:
    row = db.state_batches.get(batch_id)
    if row is None or row.undo != "kept":
        return 0
    if any(other.undo == "kept" and other.seq > row.seq for other in _folded(db, row.pipeline)):
        raise law("undo is applied from the newest batch back")
    if not db.is_rewinding(row.pipeline):
        raise law("undo is applied by a rewind")
    if any(position.batch_id == batch_id for position in db.positions.values()) or not all(
        _is_restored(db, row.pipeline, undo) for undo in db.state_undo.values() if undo.batch_id == batch_id
    ):
        raise law("undo is applied to every key and every position of its batch")
    db.put(db.state_batches, batch_id, row._replace(undo="applied"))
    return 1


def _is_restored(db: MemoryDatabase, pipeline: str, undo: Undo) -> bool:
    now = db.states.get((pipeline, undo.key))
    return now == (_before(undo, pipeline) if undo.existed else None)


@verb
def delete_undo(db: MemoryDatabase, *, batch_ids: list[int]) -> int:
    given = set(batch_ids)
    positions = [key for key in db.position_undo if key[0] in given]
    states = [key for key in db.state_undo if key[0] in given]
    for name, keys in (("state_position_undo", positions), ("state_undo", states)):
        if any(db.state_batches[batch_id].undo == "kept" for batch_id, _ in keys):
            raise law(f"DELETE of tideline.{name} is refused: its batch may still be rewound")
    for one in positions:
        db.remove(db.position_undo, one)
    for other in states:
        db.remove(db.state_undo, other)
    return len(states)


@verb
def prune_undo(db: MemoryDatabase, *, pipeline: str, most: int) -> Rows:
    kept = [row for row in _folded(db, pipeline) if row.undo == "kept"]
    for row in kept[most:]:
        db.put(db.state_batches, row.batch_id, row._replace(undo="pruned"))
    return [{"batch_id": row.batch_id} for row in kept[most:]]


@verb
def supersede_rewound(db: MemoryDatabase, *, batch_ids: list[int]) -> Rows:
    found = (in_state(db, batch_id, "published", "advanced") for batch_id in sorted(set(batch_ids)))
    return [row for batch in found if batch is not None for row in move(db, batch, state="superseded")]


@verb
def leave_rewound(db: MemoryDatabase, *, batch_ids: list[int], reason: str) -> int:
    gone = [
        piece
        for _, pieces in sorted(db.coverage.items())
        for piece in sorted(pieces.values(), key=lambda piece: piece.start)
        if piece.batch_id in batch_ids
    ]
    for piece in gone:
        leave(db, piece)
    for piece in gone:
        insert(db, piece.stream_id, piece.start, piece.end, hole="rewound", reason=reason, decided_by=db.actor)
    check_left(db, gone)
    return len(gone)


@verb
def delete_rewound_rejects(db: MemoryDatabase, *, batch_ids: list[int]) -> int:
    gone = [place for place, reject in db.rejects.items() if reject.batch_id in batch_ids]
    for place in gone:
        if db.state_batches[db.rejects[place].batch_id].undo != "applied":
            raise law(
                "DELETE of tideline.reject is refused: a reject goes with the re-drive or the replay that loads its record"
            )
        db.remove(db.rejects, place)
    return len(gone)


@composed("tideline.ledger", "delete_rewound_rows")
def delete_rewound_rows(db: MemoryDatabase, *, target: Identifier, batch_ids: list[int]) -> int:
    found = output.table(db, target)
    gone = [key for key, row in found.rows.items() if row.batch_id in batch_ids]
    for key in gone:
        output.remove(db, found, key)
    return len(gone)
