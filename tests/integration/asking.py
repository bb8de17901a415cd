"""Questions to the ledger that only tests ask."""

from tideline.ledger.connection import Ledger


def query(ledger: Ledger, sql: str, *parameters: object) -> list[tuple]:
    """All rows of one statement, in a transaction of its own."""
    with ledger.connection as connection, connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


def state(ledger: Ledger, batch_id: int) -> tuple[str, int]:
    """State and fence of a batch."""
    return query(ledger, "SELECT state::text, fence FROM tideline.batch WHERE batch_id = %s", batch_id)[0]


def events(ledger: Ledger, batch_id: int) -> list[tuple]:
    """(actor, action, from, to) of a batch, in order."""
    return query(
        ledger,
        "SELECT actor, action, from_state, to_state FROM tideline.event WHERE batch_id = %s ORDER BY event_id",
        batch_id,
    )
