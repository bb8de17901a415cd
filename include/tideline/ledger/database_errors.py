"""Translate errors of the ledger's database into those that say what to do: try again, or correct something."""

import psycopg2

from tideline.errors import FatalError, RetryableError, TidelineError

_NO_RIGHT = "42501"
"""SQLSTATE of a statement for which the role lacks a privilege."""
_READ_ONLY = "25006"
"""SQLSTATE of a write where none is possible."""
_TIME_OUTS = {
    "57014": "statement_timeout",
    "25P04": "transaction_timeout",
    "57P05": "idle_session_timeout",
}
"""By SQLSTATE, the setting by which the server has ended a statement, a transaction or a session."""
_OF_A_STATEMENT = frozenset(
    {"0A", "20", "21", "22", "23", "26", "27", "2B", "2F", "34", "38", "39", "3B", "3D", "3F", "42", "44", "54", "P0"}
)
"""Classes of SQLSTATEs that the same statement would meet again: it breaks a law, is wrong, or is more than the server can carry out."""
_TOO_DEEP = "54001"
"""SQLSTATE of a stack that is full. A server with other settings may have room: it is of those classes, and is tried again."""
_LEVEL = "at_read_committed_only"
"""The law against writes at an isolation level at which other laws would overlook what others have committed."""
_FAILING_ROW = "Failing row contains"
"""How the server's detail about a CHECK or a NOT NULL begins."""
_UNSAFE = (
    "certificate verify failed",
    "signature failure",
    "does not match host name",
    "certificate file",
    "server does not support SSL",
    "no encryption",
)
"""What libpq or the server says where one of them wants TLS and the other cannot have it as it should be. Lost connections are not among them."""

_FULL = ("too many clients already", "too many connections for", "remaining connection slots are reserved")
"""What the server says where it has no free connection, for anybody, for a role or a database, or for a role without privileges."""
FREE_SOME = (
    "run the task again when other programs have ended theirs (SELECT usename, application_name, count(*) FROM pg_stat_activity GROUP BY 1, 2), "
    "or raise max_connections of the server, or CONNECTION LIMIT of the role or of the database"
)
"""The next step where there is no free connection."""


def unreachable(error: psycopg2.Error, variable: str) -> RetryableError | FatalError:
    """Translate the error of a connection that could not be opened into one with a next step.

    libpq never puts the password in its text.

    Args:
        error: The error.
        variable: The variable that holds the URL, for the message.
    """
    text = first_line(error)
    if any(cause in text for cause in _UNSAFE):
        return FatalError(
            f"the ledger's database refused the connection: {text}",
            next_step=f"correct sslmode and sslrootcert in {variable}, or the server's certificate: docs/deploy.md#tls",
            entry="ledger-refuses",
        )
    if "unsupported startup parameter" in text:
        return FatalError(
            f"a pooler in front of the ledger's database refused the connection, because it does not know the settings of the session: {text}",
            next_step=f"let it ignore them, as they are set once more by a statement (PgBouncer: ignore_startup_parameters = options), and pool "
            f"sessions; or let {variable} lead past it",
            entry="pooler",
        )
    if any(cause in text for cause in ("authentication failed", "does not exist", "permission denied for database")):
        return FatalError(
            f"the ledger's database refused the connection: {text}",
            next_step=f"check user, password and database name in {variable}, and whether the user may CONNECT",
            entry="ledger-refuses",
        )
    return no_free_connection(text) or RetryableError(
        f"the ledger's database cannot be reached: {text}",
        next_step=f"check that Postgres is up and {variable} points to it, then run the task again",
        entry="ledger-does-not-answer",
    )


def no_free_connection(text: str) -> RetryableError | None:
    """Return the error to raise if a server has refused a connection because it has no free one; None for another cause."""
    if not any(cause in text for cause in _FULL):
        return None
    return RetryableError(
        f"the ledger's database has no free connection: {text}",
        next_step=FREE_SOME,
        entry="no-free-connections",
    )


class RefusedStatementError(FatalError):
    """The database has refused a statement, and would refuse it again: a law of the ledger, a constraint, or a mistake in it.

    Args:
        error: What psycopg2 has raised.
    """

    def __init__(self, error: psycopg2.Error) -> None:
        super().__init__(
            f"the ledger's database refused: {first_line(error)}",
            next_step="`tideline doctor` checks its migrations and what its user may do",
            entry="ledger-refuses",
        )
        self.sqlstate = error.pgcode
        self.diag = error.diag
        """The fields of the server's message: the text, its detail, and the constraint or law that it names."""


def translated(error: psycopg2.Error) -> TidelineError:
    """Translate an error of the database into one that says whether to try again or what to correct."""
    return _final(error, error.pgcode or "") or _passing(error, error.pgcode or "")


def written_while_reading(error: psycopg2.Error) -> FatalError:
    """Return the error to raise if a query writes in a transaction that Tideline itself has made read-only. No standby is the cause."""
    return FatalError(
        f"a query that was to read only wants to write or to lock rows, which is refused: {first_line(error)}",
        next_step="let the table or view that it names read only: without FOR UPDATE, and without functions that write",
        entry="table-cannot-be-read",
    )


def _final(error: psycopg2.Error, code: str) -> FatalError | None:
    """Translate an error that the same statement would meet again; return None for another one."""
    if code in {"3F000", "42P01"} and "tideline." in str(error):
        return FatalError(
            f"the ledger's tables are missing: {first_line(error)}",
            next_step="create them with: tideline migrate",
            entry="ledger-not-migrated",
        )
    if error.diag.constraint_name == _LEVEL:
        return FatalError(
            f"the ledger's database refused a write at this isolation level: {first_line(error)}",
            next_step="SET default_transaction_isolation = 'read committed' in this session, before it begins a transaction",
            entry="isolation-level",
        )
    if code == _NO_RIGHT:
        return FatalError(
            f"the ledger's database refused: {first_line(error)}",
            next_step="run `tideline migrate --roles`, which grants each role what it needs; `tideline doctor` names what a role lacks",
            entry="ledger-refuses",
        )
    return RefusedStatementError(error) if code[:2] in _OF_A_STATEMENT and code != _TOO_DEEP else None


def _passing(error: psycopg2.Error, code: str) -> RetryableError:
    if code == _READ_ONLY:
        return RetryableError(
            f"the ledger's database takes no writes: {first_line(error)}",
            next_step="let the URL lead to the primary: this server is a standby, or was the primary before a fail-over; "
            "`tideline doctor` says what it is",
            entry="ledger-takes-no-writes",
        )
    if code in _TIME_OUTS and "timeout" in str(error):
        return RetryableError(
            f"the ledger's database has ended a step by {_TIME_OUTS[code]}, which is 0 in sessions of Tideline: {first_line(error)}",
            next_step=f"find out what sets {_TIME_OUTS[code]} after Tideline has opened its session: a pooler, a proxy or an extension of a "
            "managed server; take it away there for the roles of Tideline",
            entry="ledger-ends-sessions",
        )
    # A dropped connection has no SQLSTATE. Shutdown, recovery, a deadlock, a lock that was not granted, a full disk are
    # temporary. So may be what no list here knows: nothing was changed, and another try costs little.
    return RetryableError(
        f"the ledger did not carry out a step: {first_line(error)}",
        next_step="run the task again",
        entry="ledger-does-not-answer",
    )


def said(error: psycopg2.Error | RefusedStatementError) -> str:
    """Return what the server says about a refused statement, without the row: its values help no person, and may be a customer's."""
    primary, detail = error.diag.message_primary or first_line(error), error.diag.message_detail
    return primary if detail is None or _FAILING_ROW in detail else f"{primary}; {detail}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its class if it has none."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
