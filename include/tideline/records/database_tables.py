"""Read small tables of the ledger's database, all of them as they are at one moment."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from psycopg2.errorcodes import INVALID_SCHEMA_NAME, UNDEFINED_TABLE
from psycopg2.extensions import Column
from psycopg2.sql import SQL, Composable, Identifier

from tideline import settings
from tideline.errors import FatalError, RetryableError
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import RefusedStatementError
from tideline.records.task_sessions import opened_to_read
from tideline.statements import statement

_NUMERIC = 1700  # the oid of the type numeric, the same in every PostgreSQL
_WIDEST = (38, 18)  # precision and scale that Spark uses for a numeric without them


def read(tables: Sequence[str], *, reader: str, most_bytes: int | None = None) -> dict[str, pa.Table]:
    """Return all rows of tables or views, by the given `schema.table`.

    Numbers and dates keep their types (a numeric without a precision becomes decimal(38,18)). Types that Spark does not
    have, such as uuid and jsonb, become text.

    Args:
        tables: Names as `schema.table`.
        reader: What reads them, for messages.
        most_bytes: The most bytes of one table in memory. It is not read further. Defaults to None: no limit.

    Raises:
        FatalError: A table or view does not exist, may not be read or is too large, or TIDELINE_LEDGER_URL is not set.
        RetryableError: The database did not answer.
    """
    # The role of drivers, also where a person tries a pipeline out in a shell.
    url, variable = settings.url_of(settings.WRITER_URL, f"in which `{reader}` reads {', '.join(tables)}")
    with Ledger(url, actor=reader, variable=variable) as ledger:
        queries = {table: query_of(table) for table in tables}
        described = {table: _described(ledger, query, reader, table) for table, query in queries.items()}
        texts = {table: query.as_string(ledger.connection) for table, query in queries.items()}
    try:
        with closing(opened_to_read(url)) as connection, connection.cursor() as cursor:
            cursor.execute(statement("tideline.records", "read_one_snapshot"))
            return {
                table: _plain_table(_fetched(cursor, texts[table], reader, table, most_bytes), described[table])
                for table in tables
            }
    except (adbc.OperationalError, OSError) as error:  # OSError: from the middle of a result
        raise RetryableError(
            f"{reader}: the ledger did not carry out a step, to read {', '.join(tables)}: {str(error).splitlines()[0]}",
            next_step="run the task again",
            entry="ledger-does-not-answer",
        ) from error


def query_of(table: str) -> Composable:
    """Return the query for all rows of `schema.table`."""
    return SQL(statement("tideline.records", "select_table")).format(table=Identifier(*table.split(".")))


def describe(ledger: Ledger, query: Composable) -> tuple[Column, ...]:
    """Return the columns of a query with their types as PostgreSQL declares them, within a transaction."""
    with ledger.connection.cursor() as cursor:
        cursor.execute(SQL("{} LIMIT 0").format(query))
        return cursor.description or ()


def _described(ledger: Ledger, query: Composable, reader: str, table: str) -> tuple[Column, ...]:
    """Return the columns. ADBC does not report precision and scale of a numeric."""
    try:
        with ledger.transaction():
            return describe(ledger, query)
    except RefusedStatementError as error:
        if error.sqlstate not in {UNDEFINED_TABLE, INVALID_SCHEMA_NAME}:
            raise
        raise FatalError(
            f"{reader}: cannot read the table {table}: {error.diag.message_primary}",
            next_step="create the table, or correct transform.py; nothing was read",
            entry="table-cannot-be-read",
        ) from error


def _fetched(cursor: Any, text: str, reader: str, table: str, most_bytes: int | None) -> pa.Table:
    """Run a query and return its rows. Stop as soon as they are more than `most_bytes`, so that no table fills the memory."""
    cursor.execute(text)
    found = cursor.fetch_record_batch()
    batches, n_bytes = [], 0
    for batch in found:
        batches.append(batch)
        n_bytes += batch.nbytes
        if most_bytes is not None and n_bytes > most_bytes:
            n_rows = sum(one.num_rows for one in batches)
            raise FatalError(
                f"{reader}: cannot read the table {table}: expected at most {most_bytes / 2**20:,.0f} MiB in memory, since each task "
                f"holds all of it; found {n_bytes / 2**20:,.1f} MiB in its first {n_rows:,} rows",
                next_step="name a view with fewer columns or rows; nothing was read from Kafka",
                entry="table-cannot-be-read",
            )
    return pa.Table.from_batches(batches, schema=found.schema)


def _plain_table(rows: pa.Table, described: Sequence[Column]) -> pa.Table:
    return pa.table({column.name: _plain(rows[column.name].combine_chunks(), column) for column in described})


def _plain(values: Any, column: Column) -> pa.Array:
    """Convert the values to a type that Spark supports."""
    if isinstance(values.type, pa.UuidType):
        return pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string())
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if column.type_code == _NUMERIC:
        return values.cast(
            pa.decimal128(column.precision or _WIDEST[0], column.scale if column.precision else _WIDEST[1])
        )
    return values
