"""Converts the content of the database to the facts that the checker compares."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

from faults.checker.facts import (
    Attempt,
    Batch,
    Coverage,
    Event,
    Folded,
    Foreign,
    Found,
    KeyState,
    Outgoing,
    Position,
    Range,
    Reject,
    Row,
    Stream,
    Undo,
)
from faults.memory.database import MemoryDatabase, moment
from faults.memory.rows import Key, OutputRow
from faults.memory.rows import Undo as StoredUndo


def found(
    database: MemoryDatabase, pipeline: str, table: str, *, outside: Mapping[Key, OutputRow] | None = None
) -> Found:
    """Return a pipeline's ledger and output; `table` is named `schema.table`. The result is valid until the database changes.

    `outside` are the rows of an outside sink, if the output is not a table.
    """
    db = database
    streams = [stream for stream in db.streams.values() if stream.pipeline == pipeline]
    batches = {batch.batch_id: batch for batch in db.batches.values() if batch.pipeline == pipeline}
    schema, name = table.split(".")
    theirs = {b.batch_id: b.pipeline for b in db.batches.values() if b.pipeline != pipeline}
    output = db.outputs[schema, name].rows if outside is None else outside
    rows = {key: row for key, row in output.items() if row.batch_id not in theirs}
    followed = {(stream.topic_id, stream.partition) for stream in streams}
    return Found(
        streams=[Stream(s.stream_id, *s[2:9]) for s in streams],
        batches=[
            Batch(
                b.batch_id,
                b.kind,
                b.state,
                b.fence,
                b.attempt,
                b.outside,
                _uuid(db, b.written_by),
                b.stateful,
                moment(b.planned_at),
            )
            for b in batches.values()
        ],
        ranges=[
            Range(
                batch_id=r.batch_id,
                stream_id=r.stream_id,
                start=r.start,
                end=r.end,
                reserves=r.reserves,
                n_read=r.n_read,
                n_written=r.n_written,
                n_rejected=r.n_rejected,
                n_filtered=r.n_filtered,
                n_gap=r.n_gap,
                gaps_allowed=r.gaps_allowed,
            )
            for batch_id in batches
            for r in db.ranges[batch_id].values()
        ],
        coverage=[
            Coverage(c.stream_id, c.start, c.end, c.batch_id, c.hole, c.reason, c.decided_by)
            for stream in streams
            for c in sorted(db.coverage[stream.stream_id].values(), key=lambda c: c.start)
        ],
        attempts=[
            Attempt(a.attempt, a.batch_id, a.fence, a.outcome, a.ended_at is not None)
            for a in db.attempts.values()
            if a.batch_id in batches
        ],
        events=[
            Event(e.event_id, e.action, e.batch_id, e.stream_id, e.attempt, e.from_state, e.to_state, e.detail)
            for e in sorted(db.events.values())
            if e.pipeline == pipeline
        ],
        outbox=[Outgoing(o.batch_id, o.announced_at is not None) for o in db.outbox.values() if o.pipeline == pipeline],
        rows=_rows(rows),
        rejects=_rejects(database),
        strangers=sorted({key[:2] for key in rows} - followed),
        foreign=[
            Foreign(*key[:3], row.batch_id, theirs[row.batch_id])
            for key, row in output.items()
            if row.batch_id in theirs and not _owns(db, row.batch_id, key)
        ],
        folded=[Folded(row.batch_id, *row[2:]) for row in db.state_batches.values() if row.pipeline == pipeline],
        positions={
            stream_id: Position(stream_id, p.next_offset, p.max_time, p.batch_id)
            for stream_id, p in db.positions.items()
            if p.pipeline == pipeline
        },
        states={row.key: KeyState(*row[1:]) for row in db.states.values() if row.pipeline == pipeline},
        undo=_undo(db, pipeline),
    )


def _undo(db: MemoryDatabase, pipeline: str) -> dict[int, Undo]:
    found: dict[int, Undo] = {}
    for batch_id, row in db.state_batches.items():
        positions = {key[1]: Position(*undo[1:]) for key, undo in db.position_undo.items() if key[0] == batch_id}
        states = {
            key[1]: _before(undo) if undo.existed else None for key, undo in db.state_undo.items() if key[0] == batch_id
        }
        if row.pipeline == pipeline and (positions or states):
            found[batch_id] = Undo(positions, states)
    return found


def _before(undo: StoredUndo) -> KeyState:
    known: tuple[Any, ...] = undo[3:]
    return KeyState(undo.key, *known)


def _uuid(db: MemoryDatabase, attempt_id: int | None) -> UUID | None:
    return next((attempt.attempt for attempt in db.attempts.values() if attempt.attempt_id == attempt_id), None)


def _owns(db: MemoryDatabase, batch_id: int, place: Key) -> bool:
    topic_id, partition, offset = place[:3]
    return any(
        piece.batch_id == batch_id and piece.start <= offset < piece.end
        for stream in db.streams.values()
        if (stream.pipeline, stream.topic_id, stream.partition) == (db.batches[batch_id].pipeline, topic_id, partition)
        for piece in db.coverage[stream.stream_id].values()
    )


def _rows(rows: Mapping[Key, OutputRow]) -> Callable[[Stream], Iterator[Row]]:
    by_place: dict[tuple[UUID, int], list[Row]] = {}
    for key, row in sorted(rows.items(), key=lambda item: item[0][:3]):
        by_place.setdefault(key[:2], []).append(Row(*row))
    return lambda stream: iter(by_place.get((stream.topic_id, stream.partition), ()))


def _rejects(database: MemoryDatabase) -> Callable[[Stream], Iterator[Reject]]:
    by_stream: dict[int, list[Reject]] = {}
    for (stream_id, _), reject in sorted(database.rejects.items()):
        by_stream.setdefault(stream_id, []).append(Reject(*reject[1:9]))
    return lambda stream: iter(by_stream.get(stream.stream_id, ()))
