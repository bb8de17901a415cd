"""Open the sessions of Spark tasks with the ledger's database, for COPY and for streams of rows."""

from uuid import uuid4

import adbc_driver_postgresql.dbapi as adbc

from tideline import settings
from tideline.ledger import session_settings
from tideline.ledger.connection import opening, statement
from tideline.ledger.session_settings import conninfo

_PREPARED_ELSEWHERE = "26000"
"""SQLSTATE of a statement that was prepared in another session of the server."""


def opened(url: str, *, autocommit: bool = True) -> adbc.Connection:
    """Open a session with the settings of the ledger's sessions, which are read back once.

    Raises:
        FatalError: A pooler has lost the settings, or no law of the ledger would hold in this session.
        adbc.Error: The server cannot be reached.
    """
    connection = adbc.connect(conninfo(url), autocommit=autocommit)
    try:
        _set(connection)
    except adbc.ProgrammingError as error:
        connection.close()
        raise (
            session_settings.lost(settings.LEDGER_URL) if error.sqlstate == _PREPARED_ELSEWHERE else error
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _set(connection: adbc.Connection) -> None:
    mark = uuid4().hex
    with connection.cursor() as cursor:
        cursor.execute(opening(mark))
        ((_, role, _, _),) = cursor.fetchall()
        connection.commit()  # of nothing, where each statement commits by itself
        cursor.execute(statement("spark_jobs.records", "read_session.sql"))
        is_mine = cursor.fetchall() == [(mark,)]
        connection.commit()
    if role == "replica":
        raise session_settings.lawless(settings.LEDGER_URL)
    if not is_mine:
        raise session_settings.lost(settings.LEDGER_URL)
