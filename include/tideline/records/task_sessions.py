"""Open the sessions of Spark tasks with the ledger's database, for COPY and for streams of rows."""

import time
from typing import Self

import adbc_driver_postgresql.dbapi as adbc

from tideline import settings
from tideline.ledger import opening
from tideline.ledger.connection import AWAKE_SECONDS
from tideline.ledger.database_errors import no_free_connection
from tideline.ledger.session_settings import conninfo
from tideline.statements import statement

_PREPARED_ELSEWHERE = "26000"
"""SQLSTATE of a statement that was prepared in another session of the server."""

_newest: dict[str, adbc.Connection] = {}
"""The database to which this process has opened its newest session."""


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
                cursor.execute(statement("tideline.records", "read_session"))
                cursor.fetchall()
        except adbc.Error:
            return False
        return True


def opened(url: str) -> adbc.Connection:
    """Open a session in which each statement commits by itself, with the settings of the ledger's sessions, which are read back once.

    It knows the types of Postgres itself, and those that the database had when this process opened its first session.

    Raises:
        FatalError: A pooler has lost the settings, or one that the driver goes by; or no law of the ledger would hold in this session.
        RetryableError: The server has no free connection.
        adbc.Error: The server cannot be reached.
    """
    try:
        connection = _database(conninfo(url)).adbc_clone()
    except adbc.Error as error:
        if full := no_free_connection(" ".join(str(error).split())):
            raise full from error
        raise
    connection.adbc_connection.set_autocommit(True)  # a clone is always opened without it
    return _checked(connection, autocommit=True)


def opened_to_read(url: str) -> adbc.Connection:
    """Open a session like `opened`, whose statements are one transaction until it commits, and which knows all types that the database has now."""
    return _checked(adbc.connect(conninfo(url)), autocommit=False)


def _database(conninfo: str) -> adbc.Connection:
    """Return what the driver has read of a database, as a session that is closed; its clones are open.

    The driver reads all of pg_attribute and pg_type whenever it opens a database: ten times what a session costs in one with a ledger only, and
    seconds in a warehouse of a hundred thousand columns. A worker process opens a session for each of its tasks. What is staged has types of
    Postgres itself only, whose ids are the same in each database and release, so what was read stays true for it.
    """
    if conninfo not in _newest:
        while _newest:
            _newest.popitem()[1].close()
        source = adbc.connect(conninfo)
        source.adbc_connection.close()
        _newest[conninfo] = source
    return _newest[conninfo]


def _checked(connection: adbc.Connection, *, autocommit: bool) -> adbc.Connection:
    try:
        _set(connection, autocommit=autocommit)
    except adbc.ProgrammingError as error:
        connection.close()
        raise (opening.lost(settings.LEDGER_URL) if error.sqlstate == _PREPARED_ELSEWHERE else error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _set(connection: adbc.Connection, *, autocommit: bool) -> None:
    mark = opening.new_mark()
    with connection.cursor() as cursor:
        cursor.execute(opening.opening(mark))
        ((_, role, _, _),) = cursor.fetchall()
        if not autocommit:
            connection.commit()
        cursor.execute(statement("tideline.records", "read_session"))
        is_mine = cursor.fetchall() == [(mark,)]
        if not autocommit:
            connection.commit()
    if isinstance(role, bytes):  # the driver has recognized no type of this server by its name
        raise opening.dropped("quote_all_identifiers", settings.LEDGER_URL)
    if role == "replica":
        raise opening.lawless(settings.LEDGER_URL)
    if not is_mine:
        raise opening.lost(settings.LEDGER_URL)
