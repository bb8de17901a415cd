"""Run named statements in a session with the ledger, and return rows.

Called by the other modules of this package and by the Postgres sink. No error of psycopg2 leaves a session: it becomes a
`RetryableError`, or a `FatalError` with the text of the law that refuses a statement. Only within a transaction a statement
raises it unchanged, for sinks, which look for the row at fault.
"""

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, cast

import psycopg2
import psycopg2.extensions
from psycopg2.extensions import TRANSACTION_STATUS_INERROR, TRANSACTION_STATUS_INTRANS
from psycopg2.extras import DictCursor, DictRow, Json, register_uuid
from psycopg2.sql import SQL, Composable

from tideline.errors import FatalError, RetryableError
from tideline.ledger import opening
from tideline.ledger.address import fault
from tideline.ledger.database_errors import first_line, translated, unreachable
from tideline.ledger.session_settings import conninfo
from tideline.statements import statement

AWAKE_SECONDS = 20.0
"""After so long without a statement, a session is tried before it is used. Proxies end sessions that are idle for minutes."""

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
        self._is_inside = False
        """Whether a `transaction` is open, at whose end errors of the database are translated. The sinks look at those of statements before."""
        self._used_at = time.monotonic()
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
                self._mark = opening.new_mark()
                self.behind_pooler = opening.set_up(cursor, self._mark, self._variable)
                # Set by a parameter: the name of a DAG run may hold any character, and `options` has its own quoting.
                _execute(cursor, statement("tideline.ledger", "set_actor"), {"actor": self._actor})
        except psycopg2.Error as error:
            raise unreachable(error, self._variable) from error
        return connection

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
            self._begin()
            yield self
        except psycopg2.Error as error:
            self._rollback()
            raise translated(error) from error
        except BaseException:
            self._rollback()
            raise
        finally:
            self._is_inside = False
        try:
            self.connection.commit()
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise CommitUnknownError(
                f"the connection to the ledger was lost during COMMIT: {first_line(error)}",
                next_step="run the task again: it looks up what became of the commit",
                entry="ledger-does-not-answer",
            ) from error
        except psycopg2.Error as error:  # a law that is checked at the end
            self._rollback()
            raise translated(error) from error
        finally:
            self._used_at = time.monotonic()

    def _begin(self) -> None:
        """Open the session again if it was ended while it was idle, by a proxy or by the server: nothing is lost then."""
        if time.monotonic() - self._used_at > AWAKE_SECONDS and not self._answers():
            self.reconnect()
        if self.behind_pooler and not opening.is_whole(self.connection, self._mark):
            raise opening.lost(self._variable)
        self._is_inside = True

    def _answers(self) -> bool:
        is_open = self.connection.info.transaction_status in {TRANSACTION_STATUS_INTRANS, TRANSACTION_STATUS_INERROR}
        return is_open or opening.answers(self.connection)

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

    def rows(self, name: str, /, **parameters: Any) -> list[DictRow]:
        """Run the statement of that name and return all its rows."""
        return self.rows_of(SQL(statement("tideline.ledger", name)), parameters)

    def row(self, name: str, /, **parameters: Any) -> DictRow | None:
        """Run the statement of that name and return its only row, or None."""
        rows = self.rows(name, **parameters)
        return rows[0] if rows else None

    def run(self, name: str, /, **parameters: Any) -> int:
        """Run the statement of that name for its effect and return how many rows it touched."""
        return self.run_sql(SQL(statement("tideline.ledger", name)), parameters)

    def rows_of(self, query: Composable, parameters: Mapping[str, Any]) -> list[DictRow]:
        """Run a composed statement and return its rows. A sink composes statements because the name of its table is declared."""
        with self._translating(), self.connection.cursor() as cursor:
            _execute(cursor, query, parameters)
            return cast(list[DictRow], cursor.fetchall())  # by the cursor factory

    def run_sql(self, query: Composable, parameters: Mapping[str, Any]) -> int:
        """Run a composed statement for its effect and return how many rows it touched."""
        with self._translating(), self.connection.cursor() as cursor:
            _execute(cursor, query, parameters)
            return cursor.rowcount

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except psycopg2.Error as error:
            if self._is_inside:
                raise
            self._rollback()
            raise translated(error) from error


class CommitUnknownError(RetryableError):
    """It is unknown whether the COMMIT took effect. The attempt's uuid in the ledger shows it."""


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
