"""Read small tables of the ledger's database, so that `frame` transforms can join with them."""

from contextlib import closing
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import psycopg2.errors
import pyarrow as pa
from psycopg2.extensions import Column
from psycopg2.sql import SQL, Composable, Identifier
from pyspark.sql import DataFrame, SparkSession

from tideline import settings
from tideline.errors import FatalError
from tideline.ledger.connection import Ledger, statement
from tideline.ledger.session_settings import conninfo

_NUMERIC = 1700  # the oid of the type numeric, the same in every PostgreSQL
_WIDEST = (38, 18)  # precision and scale that Spark uses for a numeric without them


def dimension(spark: SparkSession, table: str) -> DataFrame:
    """Return all current rows of `schema.table` in the ledger's database. They are held in the driver's memory.

    Numbers and dates keep their types (a numeric without a precision becomes decimal(38,18)). Types that Spark does not
    have, such as uuid and jsonb, become text. A replay of old offsets sees today's rows, not those of the first load.

    Raises:
        FatalError: The table or view does not exist, or TIDELINE_LEDGER_URL is not set.
    """
    query = SQL(statement("spark_jobs.records", "select_dimension.sql")).format(table=Identifier(*table.split(".")))
    url = settings.ledger_url(f"in which `dimension` reads {table}")
    with Ledger(url, actor="dimension") as ledger:
        described = _described(ledger, query, table)
        text = query.as_string(ledger.connection)
    with closing(adbc.connect(conninfo(url))) as connection, connection.cursor() as cursor:
        cursor.execute(text)
        rows = cursor.fetch_arrow_table()
    columns = {column.name: _plain(rows[column.name].combine_chunks(), column) for column in described}
    return spark.createDataFrame(pa.table(columns))


def _described(ledger: Ledger, query: Composable, table: str) -> tuple[Column, ...]:
    """Return the columns with their types as PostgreSQL declares them. ADBC does not report precision and scale of a numeric."""
    try:
        with ledger.transaction(), ledger.connection.cursor() as cursor:
            cursor.execute(SQL("{} LIMIT 0").format(query))
            return cursor.description or ()
    except psycopg2.errors.UndefinedTable as error:
        raise FatalError(
            f"dimension {table}: {error.diag.message_primary}",
            next_step="create the table, or correct transform.py",
            entry="transform",
        ) from error


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
