"""Staging tables in the ledger's database: their names, and what sinks that stage rows there do with them alike.

Each has the columns `tideline_stream`, `kafka_offset` and `tideline_task` beside those of its sink. Upkeep finds the tables
of dead attempts by their names.
"""

from collections.abc import Iterable

from psycopg2.sql import SQL

from tideline.ledger.connection import Ledger, statement

STAGING_SCHEMA = "tideline_staging"


def staging_name(batch_id: int, fence: int) -> str:
    """Return the name of an attempt's staging table."""
    return f"batch_{batch_id}_attempt_{fence}"


def staging_query(name: str) -> SQL:
    """Return the text of one of the SQL files about staging tables."""
    return SQL(statement("spark_jobs.sinks", f"{name}.sql"))


def drop(ledger: Ledger, tables: Iterable[str]) -> None:
    """Drop staging tables, each by itself. Waits for the lock if an orphan still writes to one of them, up to the lock timeout."""
    for table in tables:
        with ledger.transaction():
            ledger.run_sql(staging_query("drop_staging"), {"table": table})
