"""Run named SQL files in a session with the ledger, and return rows.

Called by the other modules of this package and by the Postgres sink. A lost connection, a lock timeout, or a server
that is down becomes a `RetryableError`. If a law of the ledger refuses a statement, the error of psycopg2 is raised
unchanged, because its text names the law.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any, Self, cast
from uuid import uuid4

import psycopg2
import psycopg2.errors
import psycopg2.extensions
from psycopg2.extras import DictCursor, DictRow, Json, register_uuid
from psycopg2.sql import SQL, Composable

from tideline.errors import FatalError, RetryableError
from tideline.ledger import session_settings
from tideline.ledger.address import fault
from tideline.ledger.database_errors import first_line, translated, unreachable
from tideline.ledger.session_settings import conninfo

register_uuid()  # type: ignore[no-untyped-call]  # its stub has no types


class Ledger:
    """A session with the ledger. Not shared between threads.

    Args:
        url: libpq URI of the ledger's database.
        actor: Who acts, as stored in `tideline.event`.
        variable: Where the URL comes from, for messages.
    """

    behind_pooler = False
    """Whether something in front of the server answers for it, which may give each transaction to another session of the server."""

    def __init__(self, url: str, *, actor: str, variable: str = "TIDELINE_LEDGER_URL") -> None:
        self._url = url
        self._variable = variable
        self._actor = actor
        self._mark = ""
        self.connection = self._connect()

    def _connect(self) -> psycopg2.extensions.connection:
        if wrong := fault(self._url):
            raise FatalError(
                f"{self._variable} is no address of a database: {wrong}",
                next_step=f"correct {self._variable}; what it holds is not shown, because it may be a password",
                entry="environment",
            )
        try:
            connection = psycopg2.connect(conninfo(self._url), cursor_factory=DictCursor)
            # With each BEGIN, also where a pooler has dropped what was sent at the start.
            connection.set_session(isolation_level="READ COMMITTED")
            with connection, connection.cursor() as cursor:
                self._open(cursor)
                # Set by a parameter: the name of a DAG run may hold any character, and `options` has its own quoting.
                _execute(cursor, statement("tideline.ledger", "sql/queries/set_actor.sql"), {"actor": self._actor})
        # InterfaceError: the connection was lost after it was opened, and its rollback found it closed.
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise unreachable(error, self._variable) from error
        return connection

    def _open(self, cursor: psycopg2.extensions.cursor) -> None:
        self._mark = uuid4().hex
        cursor.execute(opening(self._mark))
        found = cast(DictRow, cursor.fetchone())  # by the cursor factory
        if found["replication_role"] == "replica":
            raise session_settings.lawless(self._variable)
        self.behind_pooler = found["backend"] != cursor.connection.info.backend_pid

    def _check_settings(self) -> None:
        """Refuse a session of the server that has not the settings of this session: a pooler gives a transaction to any of its own."""
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(statement("tideline.ledger", "sql/queries/show_session.sql"))
                mark = cast(DictRow, cursor.fetchone())[0]
        except psycopg2.errors.UndefinedObject:  # no session of Tideline has set it yet
            mark = None
        if mark != self._mark:
            raise session_settings.lost(self._variable)

    @property
    def actor(self) -> str:
        """Return who acts, as stored in events."""
        return self._actor

    def reconnect(self) -> None:
        """Open a new connection in place of one that was lost."""
        self.close()
        self.connection = self._connect()

    def close(self) -> None:
        """End the session. The server rolls back what was not committed."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Commit at the end, roll back on any error.

        Raises:
            RetryableError: The connection was lost, a lock was not granted in time, or the server aborted the
                transaction.
            CommitUnknownError: The connection was lost during COMMIT.
            FatalError: A pooler has lost the settings of the session.
        """
        try:
            if self.behind_pooler:
                self._check_settings()
            yield self
        except psycopg2.Error as error:
            self._rollback()
            found = translated(error)
            if found is error:
                raise
            raise found from error
        except BaseException:
            self._rollback()
            raise
        try:
            self.connection.commit()
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise CommitUnknownError(
                f"the connection to the ledger was lost during COMMIT: {first_line(error)}",
                next_step="run the task again: it looks up what became of the commit",
                entry="ledger-does-not-answer",
            ) from error

    def _rollback(self) -> None:
        if not self.connection.closed:
            try:
                self.connection.rollback()
            except psycopg2.Error:
                self.connection.close()

    @contextmanager
    def without_nested_loops(self) -> Iterator[None]:
        """Disable nested loop joins inside the block, within a transaction. For joins of rows that were just staged.

        The planner has no statistics of those rows yet. If it expects one row, it chooses a nested loop, which reads
        the other table again for each row. Half a million staged rows and some thousand rejects then take hours, under
        the lock of their batch.
        """
        self.run("forbid_nested_loops")
        yield
        self.run("allow_nested_loops")

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Carry out the block, check all laws as at the end of the transaction, and undo the block, within a transaction.

        An error of the block leaves the transaction as it is: the caller must let it roll back.
        """
        self.run("begin_trial")
        yield
        self.run("check_now")
        self.run("undo_trial")

    def rows(self, verb: str, **parameters: Any) -> list[DictRow]:
        """Run the SQL file of `verb` and return all its rows."""
        return self.rows_of(SQL(statement("tideline.ledger", f"sql/queries/{verb}.sql")), parameters)

    def row(self, verb: str, **parameters: Any) -> DictRow | None:
        """Run the SQL file of `verb` and return its only row, or None."""
        rows = self.rows(verb, **parameters)
        return rows[0] if rows else None

    def run(self, verb: str, **parameters: Any) -> int:
        """Run the SQL file of `verb` for its effect and return how many rows it touched."""
        return self.run_sql(SQL(statement("tideline.ledger", f"sql/queries/{verb}.sql")), parameters)

    def rows_of(self, query: Composable, parameters: Mapping[str, Any]) -> list[DictRow]:
        """Run a composed statement and return its rows. A sink composes statements because the name of its table is declared."""
        with self.connection.cursor() as cursor:
            _execute(cursor, query, parameters)
            return cast(list[DictRow], cursor.fetchall())  # by the cursor factory

    def run_sql(self, query: Composable, parameters: Mapping[str, Any]) -> int:
        """Run a composed statement for its effect and return how many rows it touched."""
        with self.connection.cursor() as cursor:
            _execute(cursor, query, parameters)
            return cursor.rowcount


class CommitUnknownError(RetryableError):
    """It is unknown whether the COMMIT took effect. The attempt's uuid in the ledger shows it."""


@cache
def statement(package: str, path: str) -> str:
    """Return the text of an SQL file that ships with `package`."""
    return files(package).joinpath(path).read_text(encoding="utf-8")


def opening(mark: str) -> str:
    """Return the statement that sets all settings of a session, for any driver.

    Args:
        mark: Marks the session, by letters and digits: a statement in another session of the server does not find it.
    """
    text = statement("tideline.ledger", "sql/queries/set_session.sql")
    return text.format(session=f"'{mark}'", wanted=f"'{session_settings.wanted()}'")


def json(value: Mapping[str, Any] | list[Mapping[str, Any]]) -> Json:
    """Wrap `value` as a parameter for a jsonb column."""
    return Json(value)


def here() -> dict[str, Any]:
    """Return this process as the columns `host` and `pid` of an attempt."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


def _execute(cursor: psycopg2.extensions.cursor, query: str | Composable, parameters: Mapping[str, Any]) -> None:
    try:
        cursor.execute(query, parameters)
    except ValueError as error:  # raised by psycopg2 before anything is sent
        if not isinstance(error, UnicodeEncodeError) and "NUL" not in str(error):
            raise
        raise FatalError(
            f"the ledger cannot keep a text that holds U+0000 or bytes that are no UTF-8: {error}",
            next_step="write it with other characters; nothing was changed",
            entry="text-cannot-be-kept",
        ) from error
