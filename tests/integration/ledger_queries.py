"""Queries of the ledger that only tests need."""

from typing import Any

import psycopg2.errors
import pytest
from psycopg2.sql import Composable

from tideline.ledger.connection import Ledger


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
    """Run statements that Postgres must refuse with a law's error; return its text."""
    with (
        pytest.raises((psycopg2.errors.IntegrityError, psycopg2.errors.RestrictViolation)) as caught,
        ledger.connection as connection,
    ):
        connection.cursor().execute(sql, parameters)
    return str(caught.value)


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
