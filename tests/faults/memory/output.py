"""Output tables: which rows they refuse, and which records of a batch they refuse when each is tried by itself."""

from itertools import groupby
from typing import Any

import psycopg2
from psycopg2.sql import Composed, Identifier

from faults.memory.database import MemoryDatabase, Table
from faults.memory.refusals import duplicate, refusal
from faults.memory.registry import Rows, composed
from faults.memory.rows import Key, OutputRow, Place, TriedRecord

KEY = ("kafka_topic_id", "kafka_partition", "kafka_offset")
_SINKS = "tideline.sinks.postgres"


class Trial(Table):
    """A table without a key."""

    def key(self, coordinates: Place, columns: tuple[str, ...], values: tuple[Any, ...]) -> Key:
        return (*coordinates, len(self.rows))


def table(db: MemoryDatabase, target: Identifier) -> Table:
    """Return the output table of a name."""
    found = db.outputs.get(target.strings)
    if found is None:
        raise refusal("undefined_table", f'relation "{".".join(target.strings)}" does not exist')
    return found


def names(columns: Composed) -> tuple[str, ...]:
    """Return the names in a list of columns; the sink has doubled percent signs."""
    return tuple(part.strings[-1].replace("%%", "%") for part in columns.seq if isinstance(part, Identifier))


def put(db: MemoryDatabase, target: Identifier, coordinates: Place, columns: tuple[str, ...], row: OutputRow) -> None:
    """Insert a row.

    Raises:
        A row with one of its keys exists already.
    """
    name, found = target.strings[-1], table(db, target)
    key = found.key(coordinates, columns, row.values)
    if key in found.rows:
        raise _exists(f"{name}_pkey", KEY if found.item is None else (*KEY, found.item), key)
    further = _further(found, row)
    for column, value in further:
        if (column, value) in found.taken:
            raise _exists(f"{name}_{column}_key", (column,), (value,))
    for one in further:
        db.put(found.taken, one, None)
    db.put(found.rows, key, row)


def remove(db: MemoryDatabase, found: Table, key: Key) -> None:
    """Delete a row."""
    row = db.remove(found.rows, key)
    for one in _further(found, row):
        db.remove(found.taken, one)


def _further(found: Table, row: OutputRow) -> list[tuple[str, Any]]:
    values = dict(zip(found.columns, row.values, strict=True)) if found.unique else {}
    return [(column, values[column]) for column in found.unique if values[column] is not None]


def _exists(constraint: str, columns: tuple[str, ...], values: tuple[Any, ...]) -> psycopg2.Error:
    detail = f"Key ({', '.join(columns)})=({', '.join(map(str, values))}) already exists."
    return duplicate(constraint, detail)


@composed(_SINKS, "create_trial")
def create_trial(db: MemoryDatabase, *, trial: Identifier, columns: Composed, target: Identifier) -> int:
    table(db, target)
    db.put(db.outputs, trial.strings, Trial(names(columns), None))
    return -1


@composed(_SINKS, "number_records")
def number_records(db: MemoryDatabase, *, trial: Identifier, records: Identifier) -> int:
    rows = sorted(table(db, trial).rows.items(), key=lambda found: (found[0][1], found[0][2], found[0][0]))
    by_record = [
        TriedRecord(place, tuple(row for _, row in found))
        for place, found in groupby(rows, key=lambda found: found[0][:3])
    ]
    db.put(db.trials, records.strings, dict(enumerate(by_record, 1)))
    return -1


@composed(_SINKS, "find_occupied")
def find_occupied(db: MemoryDatabase, *, target: Identifier, trial: Identifier, **_: Any) -> Rows:
    found, tried = table(db, target), table(db, trial)
    keys = {found.key(key[:3], tried.columns, row.values) for key, row in tried.rows.items()}
    there = sorted((key for key in keys if key in found.rows), key=lambda key: (key[1], key[2]))
    return [
        {
            "kafka_partition": key[1],
            "kafka_offset": key[2],
            "tideline_batch": (batch_id := found.rows[key].batch_id),
            "pipeline": db.batches[batch_id].pipeline if batch_id in db.batches else None,
        }
        for key in there[:1]
    ]


@composed(_SINKS, "insert_apart")
def insert_apart(_: MemoryDatabase, **__: Any) -> int:
    """Do nothing. In Postgres this is only a faster path; here all records are tried one by one."""
    return -1


@composed(_SINKS, "try_records")
def try_records(
    db: MemoryDatabase, *, target: Identifier, trial: Identifier, records: Identifier, columns: Composed, **_: Any
) -> int:
    tried = db.trials[records.strings]
    for number, one in tried.items():
        done: list[Key] = []
        try:
            for row in one.rows:
                put(db, target, one.place, names(columns), row)
                done.append(table(db, target).key(one.place, names(columns), row.values))
        except psycopg2.errors.UniqueViolation as error:
            for key in done:
                remove(db, table(db, target), key)
            reason = f"{error.diag.message_primary}: {error.diag.message_detail}"
            db.put(tried, number, one._replace(state=error.pgcode, reason=reason))
    return -1


@composed(_SINKS, "list_refused")
def list_refused(db: MemoryDatabase, *, records: Identifier, batch_id: int, **_: Any) -> Rows:
    streams = {
        (db.streams[stream_id].topic_id, db.streams[stream_id].partition): stream_id
        for stream_id in db.ranges[batch_id]
    }
    return [
        {"stream_id": streams[one.place[:2]], "kafka_offset": one.place[2], "reason": one.reason, "state": one.state}
        for one in db.trials[records.strings].values()
        if one.reason is not None
    ]
