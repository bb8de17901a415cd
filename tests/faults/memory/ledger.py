"""A session with the ledger in memory: the real `Ledger`, whose connection executes statements in Python."""

from collections.abc import Mapping
from typing import Any

import psycopg2
from psycopg2.sql import Composable

from faults.memory import (
    attempts,
    batches,
    claims,
    coverage,
    events,
    folded_output,
    folding,
    intents,
    outbox,
    output,
    ranges,
    rejects,
    retiring,
    rewinding,
    runs,
    staged,
    statements,
    streams,
)
from faults.memory.database import MemoryDatabase
from faults.memory.folding import COPY_STATES
from faults.memory.refusals import refusal
from faults.memory.registry import VERBS, Rows, Statement, recognised
from faults.memory.rows import StagedRow, StagedState
from faults.memory.statements import COPY
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import unreachable

TABLES = (
    attempts,
    batches,
    claims,
    coverage,
    events,
    folded_output,
    folding,
    intents,
    outbox,
    output,
    ranges,
    rejects,
    retiring,
    rewinding,
    runs,
    staged,
    statements,
    streams,
)
"""The modules that define the verbs."""

_ENDING = ("08", "57P", "25P03")
"""SQLSTATEs with which a server ends a session."""


class MemoryLedger(Ledger):
    """A session; cheap. Transactions and the handling of errors are those of `Ledger`."""

    connection: "Connection"  # type: ignore[assignment]  # in place of psycopg2's

    def __init__(self, database: MemoryDatabase, *, actor: str) -> None:
        self.database = database
        super().__init__("memory", actor=actor)

    def _answers(self) -> bool:
        return True  # the database in memory ends no session because it is idle

    @property
    def in_transaction(self) -> bool:
        """Return whether a statement was executed that is neither committed nor rolled back."""
        return self.database.holder is self.connection

    def _connect(self) -> "Connection":  # type: ignore[override]  # in place of psycopg2's
        try:
            self.database.step(self, "connect")
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise unreachable(error, self._variable) from error
        return Connection(self)

    def rows(self, name: str, /, **parameters: Any) -> list[Any]:
        return _rows(self.connection.execute(VERBS[name], parameters))

    def run(self, name: str, /, **parameters: Any) -> int:
        return _count(self.connection.execute(VERBS[name], parameters))

    def rows_of(self, query: Composable, parameters: Mapping[str, Any]) -> list[Any]:
        return _rows(self.connection.execute(recognised(query), parameters))

    def run_sql(self, query: Composable, parameters: Mapping[str, Any]) -> int:
        return _count(self.connection.execute(recognised(query), parameters))

    def copy_states(self, staging: str, rows: list[StagedState]) -> int:
        """COPY states into a staging table; return how many."""
        return _count(self.connection.execute(COPY_STATES, {"staging": staging, "rows": rows}))

    def copy(self, staging: str, columns: tuple[str, ...], rows: list[StagedRow]) -> int:
        """COPY rows into a staging table; return how many."""
        return _count(self.connection.execute(COPY, {"staging": staging, "columns": columns, "rows": rows}))


class Connection:
    """The part of psycopg2's connection that a `Ledger` uses."""

    def __init__(self, session: MemoryLedger) -> None:
        self.closed = 0
        self.session = session
        self._database = session.database
        self._crashes = session.database.crashes
        self._failed = self._lost = False

    def execute(self, statement: Statement, parameters: Mapping[str, Any]) -> Rows | int:
        """Execute one statement; it opens a transaction if none is open."""
        self.check()
        try:
            self._database.step(self.session, statement.name)
            self.check()
            if self._database.holder is not self:
                self._database.begin(self, self.session.actor)
            if self._failed:
                raise refusal(
                    "in_failed_sql_transaction",
                    "current transaction is aborted, commands ignored until end of transaction block",
                )
            return self._database.carry_out(statement, parameters)
        except psycopg2.Error as error:
            self._failed = self._database.holder is self
            self._lose_if_lost(error)
            raise

    def commit(self) -> None:
        """Keep the changes. An exception of `on_step` before it ("commit") undoes them, one after it ("committed") does not."""
        self.check()
        if self._database.holder is not self:
            return
        if self._failed:
            self._take_back()
            return
        try:
            self._database.step(self.session, "commit")
            self.check()
            self._database.commit()
        except BaseException as error:
            self._take_back()
            self._lose_if_lost(error)
            raise
        try:
            self._database.step(self.session, "committed")
        except psycopg2.Error as error:
            self._lose_if_lost(error)
            raise

    def rollback(self) -> None:
        """Undo the changes. For a lost session the server has already done so, and psycopg2 raises."""
        self.check()
        self._take_back()

    def _take_back(self) -> None:
        self._failed = False
        if self._database.holder is self:
            self._database.roll_back()

    def close(self) -> None:
        """End the session; uncommitted changes are rolled back."""
        self._take_back()
        self.closed = 1

    def lose(self) -> None:
        """Lose the session on the server's side, as with a session that is frozen within a transaction. The client notices at its next statement."""
        self._take_back()
        self._lost = True

    def check(self) -> None:
        """Raise if the session is lost, as its next statement does."""
        if self.closed:
            raise psycopg2.InterfaceError("connection already closed")
        if self._lost or self._crashes != self._database.crashes:
            self.closed = 2
            raise psycopg2.OperationalError("server closed the connection unexpectedly")

    def _lose_if_lost(self, error: BaseException) -> None:
        """Mark the session as lost if the error ends it: a dropped connection has no SQLSTATE, a session ended by the server has one.

        Its transaction is rolled back in both cases.
        """
        if isinstance(error, psycopg2.Error) and (
            error.pgcode.startswith(_ENDING) if error.pgcode else isinstance(error, psycopg2.OperationalError)
        ):
            self._take_back()
            self.closed = 2


def _rows(found: Rows | int) -> Rows:
    if isinstance(found, int):
        raise psycopg2.ProgrammingError("no results to fetch")
    return found


def _count(found: Rows | int) -> int:
    return found if isinstance(found, int) else len(found)
