"""Staging tables in the ledger's database: their names, and what sinks that stage rows there do with them alike.

Their names have the random number of the attempt: a driver from before a restore of the ledger may still copy rows, and
must find no table of another attempt under the name of its own. Each table has the columns `tideline_stream`,
`kafka_offset` and `tideline_task` beside those of its sink. Upkeep finds the tables of dead attempts by their names.
"""

from psycopg2.sql import SQL

from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger, statement

STAGING_SCHEMA = "tideline_staging"


def staging_name(attempt: Attempt) -> str:
    """Return the name of an attempt's staging table."""
    return f"attempt_{attempt.attempt.hex}"


def staging_query(name: str) -> SQL:
    """Return the text of one of the SQL files about staging tables."""
    return SQL(statement("tideline.sinks", f"{name}.sql"))


def drop(ledger: Ledger, attempt: Attempt) -> None:
    """Drop the staging tables of this and earlier attempts at its batch, each by itself.

    Waits for the lock if an orphan still writes to one of them, up to the lock timeout.
    """
    with ledger.transaction():
        found = ledger.rows_of(staging_query("list_staging"), {"batch_id": attempt.batch_id, "fence": attempt.fence})
    for table in (row["name"] for row in found):
        with ledger.transaction():
            ledger.run_sql(staging_query("drop_staging"), {"table": table})
