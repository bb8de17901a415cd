"""Staging tables in the ledger's database: their names, and what sinks that stage rows there do with them alike.

Their names have the random number of the attempt: a driver from before a restore of the ledger may still copy rows, and
must find no table of another attempt under the name of its own. Each table has the columns `tideline_stream`,
`kafka_offset` and `tideline_task` beside those of its sink. Upkeep finds the tables of dead attempts by their names.
"""

from collections.abc import Mapping
from typing import Any

from psycopg2.sql import SQL, Composed, Identifier

from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.statements import statement

STAGING_SCHEMA = "tideline_staging"


def staging_name(attempt: Attempt) -> str:
    """Return the name of an attempt's staging table."""
    return f"attempt_{attempt.attempt.hex}"


def discard_rejected(ledger: Ledger, table: str, bound: Mapping[str, Any]) -> int:
    """Delete the staged rows of rejected records, and return how many there were. `bound` holds `attempt_id`, and `tasks`: those that won."""
    with ledger.without_nested_loops():
        return ledger.run_sql(_of_table("discard_rejected", table), bound)


def written(ledger: Ledger, table: str, bound: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return stream id and offset of each record that a re-drive writes: each may belong to another batch."""
    rows = ledger.rows_of(_of_table("list_written", table), bound)
    return [(row["stream_id"], offset) for row in rows for offset in row["offsets"]]


def drop(ledger: Ledger, attempt: Attempt) -> None:
    """Drop the staging tables of this and earlier attempts at its batch, each by itself.

    Waits for the lock if an orphan still writes to one of them, up to the lock timeout.
    """
    with ledger.transaction():
        found = ledger.rows_of(
            SQL(statement("tideline.sinks", "list_staging")), {"batch_id": attempt.batch_id, "fence": attempt.fence}
        )
    for table in (row["name"] for row in found):
        with ledger.transaction():
            ledger.run_sql(SQL(statement("tideline.sinks", "drop_staging")), {"table": table})


def _of_table(name: str, table: str) -> Composed:
    return SQL(statement("tideline.sinks", name)).format(staging=Identifier(STAGING_SCHEMA, table))
