"""Translate errors of the ledger's database into those that say what to do: try again, or correct something."""

import psycopg2

from tideline.errors import FatalError, RetryableError

_NO_RIGHT = "42501"
"""SQLSTATE of a statement for which the role lacks a privilege."""
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
    return RetryableError(
        f"the ledger's database cannot be reached: {text}",
        next_step=f"check that Postgres is up and {variable} points to it, then run the task again",
        entry="ledger-does-not-answer",
    )


def translated(error: psycopg2.Error) -> Exception:
    """Translate an error that can be retried, or that means missing tables or rights; return any other error unchanged."""
    # A dropped connection has no SQLSTATE; class 08, 57P0x (shutdown, crash recovery), 25P03 (idle too long), 40xxx (deadlock,
    # serialization), 55P03 (lock timeout) and 53xxx (out of connections, disk full) are temporary.
    code = error.pgcode or ""
    if (
        isinstance(error, psycopg2.InterfaceError)
        or code == ""
        or code.startswith(("08", "57P", "25P03", "40", "55P03", "53"))
    ):
        return RetryableError(
            f"the ledger did not carry out a step: {first_line(error)}",
            next_step="run the task again",
            entry="ledger-does-not-answer",
        )
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
    return error


def said(error: psycopg2.Error) -> str:
    """Return what the server says about a refused statement, without the row: its values help no person, and may be a customer's."""
    primary, detail = error.diag.message_primary or first_line(error), error.diag.message_detail
    return primary if detail is None or _FAILING_ROW in detail else f"{primary}; {detail}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its class if it has none."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
