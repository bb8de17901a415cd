"""Keep database sessions open for reuse: a new session costs the server more than all statements of a small task. For
processes that no fault strikes."""

from collections import defaultdict
from contextlib import suppress
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import psycopg2
from psycopg2.extensions import connection

_idle: dict[str, list["Kept"]] = defaultdict(list)
_idle_adbc: dict[str, adbc.Connection] = {}


class Kept(connection):
    """A session that can be reused after it was closed."""

    url = ""

    def close(self) -> None:
        """Roll back, and keep the session for reuse."""
        with suppress(psycopg2.Error):
            self.rollback()
            _idle[self.url].append(self)


def install() -> None:
    """Make this process reuse closed sessions from now on."""
    connect, connect_adbc = psycopg2.connect, adbc.connect

    def kept(url: str, **options: Any) -> connection:
        while _idle[url]:
            idle = _idle[url].pop()
            if _lives(idle):
                return idle
        session: Kept = connect(url, **{**options, "connection_factory": Kept})
        session.url = url
        return session

    def kept_adbc(url: str, **options: Any) -> adbc.Connection:
        if url not in _idle_adbc:
            _idle_adbc[url] = connect_adbc(url, **options)
            _idle_adbc[url].close = lambda: None
        else:
            with _idle_adbc[url].cursor() as cursor:
                cursor.execute("DISCARD TEMP")  # as if it were new
        return _idle_adbc[url]

    psycopg2.connect = kept  # type: ignore[assignment]  # an overloaded function; it is called with a URL only
    adbc.connect = kept_adbc


def forget() -> None:
    """Forget the sessions after a crash of the server."""
    _idle_adbc.clear()


def _lives(session: connection) -> bool:
    try:
        with session.cursor() as cursor:
            cursor.execute("SELECT 1")
        session.rollback()
    except psycopg2.Error:
        return False
    return True
