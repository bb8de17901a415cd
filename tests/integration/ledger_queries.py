"""Queries of the ledger that only tests need."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2.errors
import pytest
from psycopg2.sql import Composable

from tideline.ledger.connection import Ledger

LOADING = "test_loading"
"""A role with all rights of the roles that load. Databases of tests have it, see `ledgers`."""


def query(ledger: Ledger, sql: str | Composable, *parameters: object) -> list[tuple[Any, ...]]:
    """Return all rows of one statement, in a transaction of its own."""
    with ledger.connection as connection, connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


def execute(ledger: Ledger, sql: str, *parameters: object) -> None:
    """Run statements in a transaction of their own."""
    with ledger.connection as connection:
        connection.cursor().execute(sql, parameters)


def refused(ledger: Ledger, sql: str, *parameters: object) -> str:
    """Run statements that Postgres must refuse with a law's error; return its text.

    They are tried twice: as a role that has all rights of tasks, drivers and executors, which may also lack a right, and as a superuser.
    """
    laws = (psycopg2.errors.IntegrityError, psycopg2.errors.RestrictViolation)
    with pytest.raises((*laws, psycopg2.errors.InsufficientPrivilege)), _loading(ledger) as cursor:
        cursor.execute(sql, parameters)
    with pytest.raises(laws) as caught, ledger.connection as connection:
        connection.cursor().execute(sql, parameters)
    return str(caught.value)


@contextmanager
def _loading(ledger: Ledger) -> Iterator[psycopg2.extensions.cursor]:
    with ledger.connection as connection, connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {LOADING}")
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
