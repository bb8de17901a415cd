"""A session with two ledgers, the real one and the one in memory: each statement goes to both, and both must say the same."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg2
from psycopg2.extras import execute_values
from psycopg2.sql import SQL, Composable, Identifier

from asking import execute
from faults.memory.database import SECOND, MemoryDatabase
from faults.memory.ledger import MemoryLedger
from faults.memory.registry import recognised
from faults.memory.rows import StagedRow
from faults.memory.statements import staged_rows
from tideline.ledger.connection import Ledger

_IN_ANY_ORDER = {
    "advance_batches", "count_staged", "list_being_written", "list_owners", "list_unfinished", "list_written", "pass_coverage", "record_counts",
    "settle_rejects", "supersede_batches",
}  # fmt: skip
"""Verbs whose rows have no order, or several of them the same place in it."""
_LATE_SECONDS = 30
"""The two clocks may differ by this much."""


class KilledError(BaseException):
    """The process is killed at a step: both servers roll back."""


@dataclass(slots=True)
class Fault:
    """What happens to the session at one of its next steps.

    `kind` is "killed" or "lost" of a statement or a COMMIT, "kept" of a COMMIT that takes effect before the connection is lost.
    """

    kind: str
    after: int


class BothLedgers(Ledger):
    """What flow and sink take for one ledger."""

    def __init__(self, url: str, database: MemoryDatabase, *, actor: str) -> None:
        self.real = Ledger(url, actor=actor)
        self.memory = MemoryLedger(database, actor=actor)
        self.fault: Fault | None = None
        database.clock = _now()
        super().__init__(url, actor=actor)

    def _connect(self) -> "_Connections":
        for ledger in (self.real, self.memory):
            ledger.reconnect()
        with self.real.connection as real, real.cursor() as cursor:
            cursor.execute("SET synchronous_commit = off")  # what a crash of the server would lose plays no part here
        return _Connections(self)

    def rows(self, verb: str, **parameters: Any) -> list:
        return self._both(verb, lambda ledger: ledger.rows(verb, **parameters))

    def run(self, verb: str, **parameters: Any) -> int:
        return self._both(verb, lambda ledger: ledger.run(verb, **parameters))

    def rows_of(self, query: Composable, parameters: Mapping[str, Any]) -> list:
        return self._both(recognised(query)[0], lambda ledger: ledger.rows_of(query, parameters))

    def run_sql(self, query: Composable, parameters: Mapping[str, Any]) -> int:
        return self._both(recognised(query)[0], lambda ledger: ledger.run_sql(query, parameters))

    def copy(self, staging: str, task: int, rows: Sequence[tuple[int, int, tuple]]) -> int:
        """What a task stages: stream id, offset and values of (id, item, name, price)."""
        if rows:
            query = SQL(
                "INSERT INTO {} (tideline_stream, tideline_task, kafka_offset, id, item, name, price) VALUES %s"
            )
            values = [(stream_id, task, offset, *row) for stream_id, offset, row in rows]
            with self.real.connection as real, real.cursor() as cursor:
                execute_values(cursor, query.format(Identifier("tideline_staging", staging)), values)
        staged_rows(self.memory.database, staging).extend(StagedRow(s, offset, task, row) for s, offset, row in rows)
        return len(rows)

    def fall_silent(self, seconds: int) -> None:
        """Hearts of attempts that have not ended have stopped so long ago."""
        execute(
            self.real,
            "UPDATE tideline.attempt SET heartbeat_at = now() - make_interval(secs => %s) WHERE ended_at IS NULL",
            seconds,
        )
        attempts = self.memory.database.attempts
        for uuid, attempt in attempts.items():
            if attempt.ended_at is None:
                attempts[uuid] = attempt._replace(heartbeat_at=_now() - seconds * SECOND)

    def empty(self, staging: str) -> None:
        """A crash of the server has emptied a staging table, if it is there."""
        if staging in self.memory.database.staging:
            execute(self.real, SQL("TRUNCATE {}").format(Identifier("tideline_staging", staging)))
            self.memory.database.staging[staging].clear()

    def reach(self, step: str) -> None:
        """Before a statement, "commit" or "committed": where the fault strikes, if it is due."""
        fault = self.fault
        if fault is None or (fault.kind == "kept") != (step == "committed"):
            return
        if fault.after > 0:
            fault.after -= 1
            return
        self.fault = None
        self.connection.close()
        raise (
            KilledError
            if fault.kind == "killed"
            else psycopg2.OperationalError("server closed the connection unexpectedly")
        )

    def _both(self, name: str, call: Callable[[Ledger], Any]) -> Any:
        if not self.connection.closed:
            self.reach(name)
        database = self.memory.database
        database.clock = max(database.clock, _now())
        real = outcome(lambda: call(self.real))
        if name == "start_attempt" and isinstance(real, list):
            database.new_uuid = lambda: real[0]["attempt"]
        memory = outcome(lambda: call(self.memory))
        agree(name, real, memory)
        if isinstance(real, psycopg2.Error):
            raise real
        return real


class _Connections:
    """The connections of both, as one."""

    def __init__(self, session: BothLedgers) -> None:
        self._session = session

    @property
    def closed(self) -> int:
        return self._session.memory.connection.closed

    def commit(self) -> None:
        session = self._session
        session.reach("commit")
        real, memory = outcome(session.real.connection.commit), outcome(session.memory.connection.commit)
        agree("commit", real, memory)
        if isinstance(real, psycopg2.Error):
            raise real
        session.reach("committed")

    def rollback(self) -> None:
        self._session.real.connection.rollback()
        self._session.memory.connection.rollback()

    def close(self) -> None:
        self._session.real.close()
        self._session.memory.close()


def _now() -> int:
    return int(time.time() * SECOND)


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the error with which the database refuses it."""
    try:
        return call()
    except psycopg2.Error as error:
        return error


def agree(name: str, real: Any, memory: Any) -> None:
    """Fail unless both have said the same."""
    assert type_of(real) == type_of(memory), f"{name}: {real!r} in Postgres, {memory!r} in memory"
    if isinstance(real, psycopg2.Error):
        assert _refusal(real) == _refusal(memory), name
    elif isinstance(real, list):
        mine, theirs = (
            [{key: _plain(value) for key, value in dict(row).items()} for row in rows] for rows in (real, memory)
        )
        if name in _IN_ANY_ORDER:
            mine, theirs = sorted(mine, key=repr), sorted(theirs, key=repr)
        assert len(mine) == len(theirs), f"{name}: {mine} in Postgres, {theirs} in memory"
        if name == "describe_table":  # a table in memory has no types
            mine, theirs = ([{"name": row["name"]} for row in rows] for rows in (mine, theirs))
        for one, other in zip(mine, theirs, strict=True):
            assert one.keys() == other.keys(), name
            assert all(_same(one[key], other[key]) for key in one), f"{name}: {one} in Postgres, {other} in memory"
    else:
        assert real == memory, name


def type_of(result: Any) -> type | str:
    """A kind of result, or the class of an error."""
    return f"{result.pgcode}" if isinstance(result, psycopg2.Error) else type(result)


def _refusal(error: psycopg2.Error) -> tuple:
    found = error.diag
    # Of a broken count the flow tells people the whole row; nobody looks at the details of others.
    detail = found.message_detail if '"batch_range"' in (found.message_primary or "") else None
    return found.constraint_name, found.message_primary, detail


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, datetime):
        return abs((one - other).total_seconds()) < _LATE_SECONDS
    return abs(one - other) < _LATE_SECONDS if isinstance(one, float) else one == other
