"""Set what a session with the ledger's database needs, and notice where a pooler has lost it.

Each session sets its settings together with a mark of its own. A pooler of transactions gives a later transaction to another
session of the server, which has another mark or none.
"""

from typing import cast
from uuid import uuid4

import psycopg2.errors
from psycopg2.extensions import connection, cursor
from psycopg2.extras import DictRow

from tideline.errors import FatalError
from tideline.ledger import session_settings
from tideline.statements import statement


def new_mark() -> str:
    """Return a mark that no other session has, of letters and digits."""
    return uuid4().hex


def opening(mark: str) -> str:
    """Return the statement that sets all settings of a session, for any driver."""
    return statement("tideline.ledger", "set_session").format(
        session=f"'{mark}'", wanted=f"'{session_settings.wanted()}'"
    )


def set_up(session: cursor, mark: str, variable: str) -> bool:
    """Set all settings of a session. Return whether something in front of the server answers for it.

    Args:
        session: A cursor of it.
        mark: The mark of the session.
        variable: Where the URL comes from, for messages.

    Raises:
        FatalError: No law of the ledger would hold in this session. Or a pooler has dropped what the driver goes by.
    """
    if session.connection.info.parameter_status("standard_conforming_strings") != "on":
        raise dropped("standard_conforming_strings", variable)
    session.execute(opening(mark))
    found = cast(DictRow, session.fetchone())  # by the cursor factory
    if found["replication_role"] == "replica":
        raise lawless(variable)
    return bool(found["backend"] != session.connection.info.backend_pid)


def is_whole(session: connection, mark: str) -> bool:
    """Return whether a transaction has the settings that the session has set. The transaction may still set its isolation level."""
    try:
        with session.cursor() as asked:
            asked.execute(statement("tideline.ledger", "show_session"))
            return bool(cast(DictRow, asked.fetchone())[0] == mark)
    except psycopg2.errors.UndefinedObject:  # no session of Tideline has set it yet
        return False


def answers(session: connection) -> bool:
    """Return whether a session that was idle is still there."""
    try:
        with session, session.cursor() as asked:
            asked.execute(statement("tideline.ledger", "show_session"))
    except psycopg2.Error:
        return False
    return True


def lost(variable: str) -> FatalError:
    """Return the error of a session whose settings a pooler has lost."""
    return FatalError(
        f"a pooler in front of the ledger's database gives the transactions of a session to several sessions of the server, so that "
        f"default_transaction_isolation, lock_timeout and the other settings of the session in {variable} are lost",
        next_step=f"let it pool sessions (PgBouncer: pool_mode = session), or let {variable} lead past it; nothing was changed",
        entry="pooler",
    )


def lawless(variable: str) -> FatalError:
    """Return the error of a session in which no trigger fires."""
    return FatalError(
        f"session_replication_role is replica for sessions of {variable}: no law of the ledger would hold",
        next_step="take it away from the role or the database: ALTER ROLE ... RESET session_replication_role, or ALTER DATABASE ... RESET "
        "session_replication_role",
        entry="ledger-refuses",
    )


def dropped(setting: str, variable: str) -> FatalError:
    """Return the error of a session that did not begin with a setting that it was opened with. Its driver has looked at it then, once."""
    return FatalError(
        f"a pooler in front of the ledger's database has dropped the setting {setting} of a session in {variable}, and the server has another value",
        next_step=f"ALTER DATABASE ... RESET {setting}, and the same for the role of Tideline; or let the URL lead past the pooler",
        entry="pooler",
    )
