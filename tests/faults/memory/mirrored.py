"""The database in memory with a real one behind it: each statement is sent to both, and both results must agree."""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg2
from psycopg2.extras import Json, execute_values
from psycopg2.sql import SQL, Identifier

from faults.memory.database import SECOND, MemoryDatabase
from faults.memory.registry import Statement
from faults.memory.rows import StagedRow, StagedState
from faults.memory.tables import differences, empty
from tideline.ledger.connection import Ledger

_IN_ANY_ORDER = {
    "advance_batches", "count_folded", "count_staged", "list_being_written", "list_owners", "list_unfinished", "list_written", "pass_coverage",
    "prune_undo", "record_counts", "select_states", "settle_rejects", "supersede_batches", "supersede_rewound", "take_waiting",
}  # fmt: skip
"""Statements whose rows have no order, or share places in it."""
_LATE_SECONDS = 9
"""The two clocks are not read at the same time on a busy machine. This tolerance is still less than any time that the simulation lets pass."""


class MirroredDatabase(MemoryDatabase):
    """A database in memory that compares every result with that of the real database.

    One session with the real database is enough: within one transaction no other session executes anything.

    Args:
        real: A session with a ledger. The ledger is emptied.
        on_step: As in `MemoryDatabase`.
    """

    def __init__(self, real: Ledger, on_step: Callable[[Any, str], object] | None = None) -> None:
        super().__init__(on_step)
        self.real = real
        empty(real)
        self._alone("SET synchronous_commit = off")  # losing commits in a crash of the machine does not matter here
        self._passed = self._due = 0.0
        self._drawn: Iterator[UUID] = iter(())
        self.new_uuid = self._uuid
        self._set_clock()

    def _uuid(self) -> UUID:
        """Return the next identity that the real database has drawn in this statement, of an attempt or of planned batches."""
        return next(self._drawn, UUID(int=0))

    def _identities(self, given: Any) -> Iterator[UUID]:
        for row in given if isinstance(given, list) else ():
            if "attempt" in row:
                yield row["attempt"]
            elif "batch_id" in row:
                with self.real.connection.cursor() as cursor:
                    cursor.execute("SELECT identity FROM tideline.batch WHERE batch_id = %s", [row["batch_id"]])
                    yield from (identity for (identity,) in cursor.fetchall())

    def _set_clock(self) -> None:
        """Follow the real clock, which advances by itself."""
        self.clock = int((time.time() + self._passed) * SECOND)

    def pass_time(self, seconds: float) -> None:
        """Move the clock. The real clock cannot be moved, so heartbeats there are set back by that time before the next transaction."""
        self.clock += int(seconds * SECOND)
        self._passed += seconds
        self._due += seconds

    def crash(self) -> None:
        super().crash()
        for name in (*self.staging, *self.staged_states):
            self._alone(SQL("TRUNCATE {}").format(Identifier("tideline_staging", name)))

    def begin(self, connection: Any, actor: str) -> None:
        if self._due:
            earlier = "UPDATE tideline.attempt SET heartbeat_at = heartbeat_at - make_interval(secs => %s)"
            self._alone(earlier, [self._due])
            planned = (
                "SET LOCAL session_replication_role = replica;"  # a trigger forbids changes of what was planned
                " UPDATE tideline.attempt SET ended_at = ended_at - make_interval(secs => %(due)s) WHERE ended_at IS NOT NULL;"
                " UPDATE tideline.batch SET planned_at = planned_at - make_interval(secs => %(due)s);"
                " UPDATE tideline.event SET at = at - make_interval(secs => %(due)s);"
                " UPDATE tideline.intent SET at = at - make_interval(secs => %(due)s)"
            )
            self._alone(planned, {"due": self._due})
            self._due = 0.0
        self._set_clock()
        super().begin(connection, actor)
        self.real.rows("set_actor", actor=actor)

    def commit(self) -> None:
        real, memory = outcome(self.real.connection.commit), outcome(super().commit)
        agree("commit", real, memory)
        if isinstance(memory, psycopg2.Error):
            raise memory

    def roll_back(self) -> None:
        super().roll_back()
        self.real.connection.rollback()

    def carry_out(self, statement: Statement, parameters: Mapping[str, Any]) -> Any:
        self._set_clock()
        real = outcome(lambda: self._carry_out_for_real(statement, parameters))
        self._drawn = self._identities(real)
        memory = outcome(lambda: super(MirroredDatabase, self).carry_out(statement, parameters))
        agree(statement.name, real, memory)
        if isinstance(memory, psycopg2.Error):
            raise memory
        return memory

    def _carry_out_for_real(self, statement: Statement, parameters: Mapping[str, Any]) -> Any:
        with self.real.connection.cursor() as cursor:
            if statement.query is None:
                return (_copy_states if statement.name == "copy_states" else _copy)(cursor, **parameters)
            cursor.execute(statement.query, parameters)
            return cursor.fetchall() if cursor.description else cursor.rowcount

    def _alone(self, query: Any, parameters: Any = ()) -> None:
        """Execute a statement outside of the simulated transactions."""
        with self.real.connection as connection, connection.cursor() as cursor:
            cursor.execute(query, parameters)

    def check(self) -> None:
        """Fail unless both databases hold the same rows."""
        assert not (only := differences(self.real, self)), "\n".join(only)


def _copy(cursor: Any, *, staging: str, columns: tuple[str, ...], rows: list[StagedRow]) -> int:
    fixed = ("tideline_stream", "kafka_offset", "tideline_task", *(["tideline_expired"] if _are_folded(rows) else []))
    names = SQL(", ").join(map(Identifier, (*fixed, *columns)))
    query = SQL("INSERT INTO {} ({}) VALUES %s").format(Identifier("tideline_staging", staging), names)
    values = [(*row[:3], *([row.expired] if _are_folded(rows) else []), *row.values) for row in rows]
    execute_values(cursor, query, values)
    return len(rows)


def _are_folded(rows: list[StagedRow]) -> bool:
    return any(row.expired is not None for row in rows)


def _copy_states(cursor: Any, *, staging: str, rows: list[StagedState]) -> int:
    query = SQL("INSERT INTO {} VALUES %s").format(Identifier("tideline_staging", staging))
    execute_values(
        cursor, query, [(*row[:4], None if row.value is None else Json(row.value), *row[5:]) for row in rows]
    )
    return len(rows)


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the database's error."""
    try:
        return call()
    except psycopg2.Error as error:
        return error


def agree(name: str, real: Any, memory: Any) -> None:
    """Fail unless both results agree."""
    said = f"{name}: {real!r} in Postgres, {memory!r} in memory"
    if isinstance(real, psycopg2.Error) or isinstance(memory, psycopg2.Error):
        assert isinstance(real, psycopg2.Error), said
        assert isinstance(memory, psycopg2.Error), said
        assert _refusal(real) == _refusal(memory), said
    elif isinstance(real, list):
        mine, theirs = _rows(name, real), _rows(name, memory)
        assert [row.keys() for row in mine] == [row.keys() for row in theirs], said
        for one, other in zip(mine, theirs, strict=True):
            assert all(_same(one[key], other[key]) for key in one), f"{name}: {one} in Postgres, {other} in memory"
    else:
        assert real == memory, said


def _refusal(error: psycopg2.Error) -> tuple[str | None, ...]:
    found = error.diag
    # For a violated count the flow shows the whole row to people. The details of other errors are not used.
    detail = found.message_detail if '"batch_range"' in (found.message_primary or "") else None
    return error.pgcode, found.constraint_name, found.message_primary, detail


def _rows(name: str, found: list[Any]) -> list[dict[str, Any]]:
    rows = [{key: _plain(value) for key, value in dict(row).items()} for row in found]
    if name == "describe_table":  # a table in memory has no types
        return [{"name": row["name"]} for row in rows]
    return sorted(rows, key=repr) if name in _IN_ANY_ORDER else rows


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, datetime):
        return isinstance(other, datetime)  # each side has its own clock
    return bool(abs(one - other) < _LATE_SECONDS if isinstance(one, float) else one == other)
