"""Statements of the Spark job over output and staging tables in memory. The Python of its sink runs unchanged over them."""

from collections import Counter
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from psycopg2.sql import Composed, Identifier

from faults.memory import output, staged
from faults.memory.database import MemoryDatabase
from faults.memory.refusals import law, refusal
from faults.memory.registry import Rows, Statement, composed
from faults.memory.rejects import redriven, settled
from faults.memory.rows import OutputRow, Range, StagedRedrive, StagedRow

_SINKS = "tideline.sinks.postgres"


def _staged(db: MemoryDatabase, name: str) -> list[StagedRow]:
    if name not in db.staging:
        raise refusal("undefined_table", f'relation "tideline_staging.{name}" does not exist')
    return db.staging[name]


def _copy(db: MemoryDatabase, *, staging: str, columns: tuple[str, ...], rows: list[StagedRow]) -> int:
    db.put(db.staging, staging, [*_staged(db, staging), *rows])
    return len(rows)


COPY = Statement("copy", _copy, None)
"""The COPY of an executor: into these columns, and offset, stream and task."""


def winners(db: MemoryDatabase, staging: Identifier, tasks: Iterable[int]) -> list[StagedRow]:
    """Return the rows that these tasks have staged."""
    won = set(tasks)
    return [row for row in _staged(db, staging.strings[-1]) if row.task in won]


@composed(_SINKS, "describe_table")
def describe_table(db: MemoryDatabase, *, schema: str, table: str) -> Rows:
    found = db.outputs.get((schema, table))
    names = () if found is None else (*found.columns, *output.KEY, "tideline_batch")
    return [
        {
            "name": name,
            "type_name": "text",
            "precision": None,
            "scale": None,
            "length": None,
            "digits": None,
            "filled": None,
            "required": name in output.KEY,
            "not_null": name in output.KEY,
        }
        for name in names
    ]


@composed(_SINKS, "keep_columns")
def keep_columns(db: MemoryDatabase, *, target: Identifier) -> int:
    output.table(db, target)  # no session alters a table here
    return -1


@composed(_SINKS, "create_staging")
def create_staging(db: MemoryDatabase, *, staging: Identifier, target: Identifier, **_: Composed) -> int:
    output.table(db, target)
    name = staging.strings[-1]
    if name in db.staging:
        raise refusal("duplicate_table", f'relation "{name}" already exists')
    db.put(db.staging, name, [])
    return -1


@composed("tideline.sinks", "list_staging")
def list_staging(db: MemoryDatabase, *, batch_id: int, fence: int) -> Rows:
    return staged.of_batch(db, batch_id, fence)


@composed("tideline.sinks", "drop_staging")
def drop_staging(db: MemoryDatabase, *, table: str) -> Rows:
    return staged.drop(db, table)


@composed("tideline.sinks", "discard_rejected")
def discard_rejected(db: MemoryDatabase, *, staging: Identifier, attempt_id: int, tasks: list[int], **_: Any) -> int:
    rejected, won = db.staged_rejects.get(attempt_id, {}), set(tasks)
    rows = _staged(db, staging.strings[-1])
    kept = [row for row in rows if row.task not in won or (row.stream_id, row.kafka_offset) not in rejected]
    if len(kept) < len(rows):
        db.put(db.staging, staging.strings[-1], kept)
    return len(rows) - len(kept)


@composed(_SINKS, "count_staged")
def count_staged(db: MemoryDatabase, *, staging: Identifier, tasks: list[int], **_: Any) -> Rows:
    offsets: dict[int, list[int]] = {}
    for row in winners(db, staging, tasks):
        offsets.setdefault(row.stream_id, []).append(row.kafka_offset)
    return [
        {"stream_id": stream_id, "n_rows": len(found), "n_written": len(set(found))}
        for stream_id, found in offsets.items()
    ]


@composed("tideline.sinks", "list_written")
def list_written(db: MemoryDatabase, *, staging: Identifier, tasks: list[int], **_: Any) -> Rows:
    offsets: dict[int, set[int]] = {}
    for row in winners(db, staging, tasks):
        offsets.setdefault(row.stream_id, set()).add(row.kafka_offset)
    return [{"stream_id": stream_id, "offsets": sorted(found)} for stream_id, found in offsets.items()]


@composed(_SINKS, "delete_replaced")
def delete_replaced(db: MemoryDatabase, *, target: Identifier, batch_id: int, **_: Any) -> int:
    table = output.table(db, target)
    pieces: dict[tuple[UUID, int], Range] = {}
    for stream_id, piece in db.ranges[batch_id].items():
        stream = db.streams[stream_id]
        pieces[stream.topic_id, stream.partition] = piece
    ours = {
        other.batch_id
        for piece in pieces.values()
        for ranges in db.ranges.values()
        if (other := ranges.get(piece.stream_id)) and other.start < piece.end and piece.start < other.end
    }
    gone = [
        key
        for key, row in table.rows.items()
        if (own := pieces.get(key[:2])) is not None and own.start <= key[2] < own.end and row.batch_id in ours
    ]
    for key in gone:
        output.remove(db, table, key)
    return len(gone)


@composed(_SINKS, "insert_staged")
def insert_staged(
    db: MemoryDatabase,
    *,
    staging: Identifier,
    target: Identifier,
    columns: Composed,
    batch_id: int,
    tasks: list[int],
    **_: Any,
) -> int:
    pieces = db.ranges[batch_id]
    n_inserted = 0
    for row in winners(db, staging, tasks):
        piece = pieces.get(row.stream_id)
        if piece is not None and piece.start <= row.kafka_offset < piece.end:
            _insert(db, target, columns, row, batch_id)
            n_inserted += 1
    return n_inserted


@composed(_SINKS, "insert_redriven")
def insert_redriven(
    db: MemoryDatabase,
    *,
    staging: Identifier,
    target: Identifier,
    columns: Composed,
    attempt_id: int,
    tasks: list[int],
    **_: Any,
) -> int:
    owners = {(reject.stream_id, reject.kafka_offset): reject.batch_id for reject in settled(db, attempt_id)}
    n_inserted = 0
    for row in winners(db, staging, tasks):
        owner = owners.get((row.stream_id, row.kafka_offset))
        if owner is not None:
            _insert(db, target, columns, row, owner)
            n_inserted += 1
    return n_inserted


@composed("tideline.spark_jobs.readers", "slice_rejects")
def slice_rejects(db: MemoryDatabase, *, batch_id: int, slice_records: int, slice_bytes: int) -> Rows:
    slices: dict[tuple[int, int, int], list[int]] = {}
    numbers: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    for reject in redriven(db, batch_id):
        stream_id = reject.stream_id
        place = stream_id, numbers[stream_id] // slice_records, sizes[stream_id] // slice_bytes
        slices.setdefault(place, []).append(reject.kafka_offset)
        numbers[stream_id] += 1
        sizes[stream_id] += sum(len(part or b"") for part in (reject.key, reject.value, reject.headers))
    return [
        {
            "stream_id": stream_id,
            "topic": db.streams[stream_id].topic,
            "partition": db.streams[stream_id].partition,
            "start_offset": min(offsets),
            "end_offset": max(offsets) + 1,
        }
        for (stream_id, *_), offsets in sorted(slices.items())
    ]


@composed("tideline.spark_jobs.readers", "read_rejects")
def read_rejects(db: MemoryDatabase, *, batch_id: int, attempt: UUID, stream_id: int, start: int, end: int) -> Rows:
    attempt_id = staged.staging_id(db, attempt)
    names = ("kafka_offset", "kafka_timestamp_ms", "key", "value", "headers")
    rejects = [
        reject
        for reject in redriven(db, batch_id)
        if reject.stream_id == stream_id and start <= reject.kafka_offset < end
    ]
    found = StagedRedrive(
        stream_id, start, tuple(r.kafka_offset for r in rejects), tuple(r.attempt_id for r in rejects)
    )
    slices = staged.of_attempt(db, db.staged_redrives, attempt_id)
    is_new = (stream_id, start) not in slices
    if slices.get((stream_id, start), found) != found:
        raise law(
            f"attempt {attempt_id}: rejects of stream {stream_id} from {start} on were read twice, and were others the second time"
        )
    db.put(slices, (stream_id, start), found)
    if is_new:
        staged.check_intent(db, attempt_id, "staged_redrive")
    return [{name: getattr(reject, name) for name in names} for reject in rejects]


def _insert(db: MemoryDatabase, target: Identifier, columns: Composed, row: StagedRow, batch_id: int) -> None:
    stream = db.streams[row.stream_id]
    coordinates = (stream.topic_id, stream.partition, row.kafka_offset)
    output.put(db, target, coordinates, output.names(columns), OutputRow(row.kafka_offset, batch_id, row.values))
