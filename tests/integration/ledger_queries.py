"""Queries of the ledger that only tests need."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2.errors
import pytest
from psycopg2.sql import Composable

from tideline.ledger.connection import Ledger

LOADING = "test_loading"
"""A role with all rights of the roles that load. Databases of tests have it, see `ledgers`."""
UNHINDERED = "test_unhindered"
"""A role with every right on the tables of the ledger, which it does not own. Databases of tests have it, too."""
_LAWS = (psycopg2.errors.IntegrityError, psycopg2.errors.RestrictViolation)


def query(ledger: Ledger, sql: str | Composable, *parameters: object) -> list[tuple[Any, ...]]:
    """Return all rows of one statement, in a transaction of its own."""
    with ledger.connection as connection, connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


def execute(ledger: Ledger, sql: str, *parameters: object) -> None:
    """Run statements in a transaction of their own."""
    with ledger.connection as connection:
        connection.cursor().execute(sql, parameters)


def refused(ledger: Ledger, sql: str, *parameters: object, by: Collection[str] = ()) -> str:
    """Run statements that Postgres must refuse with a law's error; return its text.

    They are tried as a role that has all rights of tasks, drivers and executors, which may also lack a right; as one that lacks none, so that
    nothing but the law refuses them; and as a superuser, who owns the tables.

    Args:
        ledger: The session.
        sql: The statements.
        parameters: Their parameters.
        by: The duties whose roles try them as well. These have to have the rights, and are refused by the law.
    """
    with pytest.raises((*_LAWS, psycopg2.errors.InsufficientPrivilege)), acting(ledger, LOADING) as cursor:
        cursor.execute(sql, parameters)
    for role in (*(f"test_{duty}" for duty in by), UNHINDERED):
        with pytest.raises(_LAWS), acting(ledger, role) as cursor:
            cursor.execute(sql, parameters)
    with pytest.raises(_LAWS) as caught, ledger.connection as connection:
        connection.cursor().execute(sql, parameters)
    return str(caught.value)


@contextmanager
def acting(ledger: Ledger, role: str) -> Iterator[psycopg2.extensions.cursor]:
    """Act as a role, in a transaction of its own."""
    with ledger.connection as connection, connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {role}")
        yield cursor


def state(ledger: Ledger, batch_id: int) -> tuple[str, int]:
    """Return state and fence of a batch."""
    return query(ledger, "SELECT state::text, fence FROM tideline.batch WHERE batch_id = %s", batch_id)[0]


def events(ledger: Ledger, batch_id: int) -> list[tuple[Any, ...]]:
    """Return (actor, action, from, to) of a batch, in order."""
    return query(
        ledger,
        "SELECT actor, action, from_state, to_state FROM tideline.event WHERE batch_id = %s ORDER BY event_id",
        batch_id,
    )
