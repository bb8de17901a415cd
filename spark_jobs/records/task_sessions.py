"""Open the sessions of Spark tasks with the ledger's database, for COPY and for streams of rows."""

import time
from typing import Self

import adbc_driver_postgresql.dbapi as adbc

from tideline import settings
from tideline.ledger import opening
from tideline.ledger.connection import AWAKE_SECONDS, statement
from tideline.ledger.session_settings import conninfo

_PREPARED_ELSEWHERE = "26000"
"""SQLSTATE of a statement that was prepared in another session of the server."""


class TaskSession:
    """A session in which each statement commits by itself. It may be idle for long, while a task reads and transforms records.

    Args:
        url: libpq URI of the ledger.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.connection = opened(url)
        self._used_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def wake(self) -> bool:
        """Open the session again if it was ended while it was idle. Return whether it was: its temporary tables are gone then."""
        is_idle = time.monotonic() - self._used_at > AWAKE_SECONDS
        self._used_at = time.monotonic()
        if not is_idle or self._answers():
            return False
        self.connection.close()
        self.connection = opened(self._url)
        return True

    def _answers(self) -> bool:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(statement("spark_jobs.records", "read_session.sql"))
                cursor.fetchall()
        except adbc.Error:
            return False
        return True


def opened(url: str, *, autocommit: bool = True) -> adbc.Connection:
    """Open a session with the settings of the ledger's sessions, which are read back once.

    Raises:
        FatalError: A pooler has lost the settings, or one that the driver goes by; or no law of the ledger would hold in this session.
        adbc.Error: The server cannot be reached.
    """
    connection = adbc.connect(conninfo(url), autocommit=autocommit)
    try:
        _set(connection)
    except adbc.ProgrammingError as error:
        connection.close()
        raise (opening.lost(settings.LEDGER_URL) if error.sqlstate == _PREPARED_ELSEWHERE else error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _set(connection: adbc.Connection) -> None:
    mark = opening.new_mark()
    with connection.cursor() as cursor:
        cursor.execute(opening.opening(mark))
        ((_, role, _, _),) = cursor.fetchall()
        connection.commit()  # of nothing, where each statement commits by itself
        cursor.execute(statement("spark_jobs.records", "read_session.sql"))
        is_mine = cursor.fetchall() == [(mark,)]
        connection.commit()
    if isinstance(role, bytes):  # the driver has recognized no type of this server by its name
        raise opening.dropped("quote_all_identifiers", settings.LEDGER_URL)
    if role == "replica":
        raise opening.lawless(settings.LEDGER_URL)
    if not is_mine:
        raise opening.lost(settings.LEDGER_URL)
