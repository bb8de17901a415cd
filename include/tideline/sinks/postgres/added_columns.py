"""Add the columns that a table lacks, within the transaction that publishes the batch that needs them.

The law: a column, the event that names it, and the rows of the batch that has added it become visible together, or none of
them does; and nothing else of the table changes. So a crash in between leaves nothing, and of two batches that lack the same
column one adds it, and the other one finds it.
"""

import psycopg2
from psycopg2.sql import SQL

from tideline.errors import FatalError
from tideline.ledger import events
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import said
from tideline.sinks.postgres.column_types import Column
from tideline.sinks.postgres.target_table import Target, check_unaltered, columns_of, quoted, sink_sql


def add(ledger: Ledger, target: Target, attempt: Attempt) -> None:
    """Add the columns that are still missing, nullable and without a default, and record an event for each.

    Raises:
        RetryableError: One is there, with another type.
        FatalError: The role may not alter the table, or the table cannot have one more column.
    """
    if not _missing(ledger, target):
        return
    # Readers wait for this lock as well, so it is not asked for without need. Another batch may add them before it is granted.
    ledger.run_sql(sink_sql("lock_columns").format(target=target.identifier), {})
    for column in _missing(ledger, target):
        names = {"target": target.identifier, "column": quoted(column.name), "type": SQL(column.sql_type)}
        try:
            ledger.run_sql(sink_sql("add_column").format(**names), {})
        except psycopg2.OperationalError:
            raise  # a fault of the server, not of the table
        except psycopg2.Error as error:
            raise FatalError(
                f"{attempt}: {target.name} does not take the column {column.name} {column.sql_type}: {said(error)}",
                next_step="add the column by hand, or take it out of what the transform returns; nothing was published",
                entry="table-does-not-fit",
            ) from error
        events.record_added_column(ledger, attempt, output=target.name, column=column.name, kind=column.sql_type)


def _missing(ledger: Ledger, target: Target) -> list[Column]:
    there = columns_of(ledger, {"schema": target.schema, "table": target.table})
    check_unaltered(target, target.lacks, there)
    return [column for column in target.lacks if column.name not in there]
