"""Small tables of the warehouse, for `frame` transforms to join with."""

from contextlib import closing

import adbc_driver_postgresql.dbapi as adbc
from psycopg2.sql import SQL, Identifier
from pyspark.sql import DataFrame, SparkSession

from tideline import settings
from tideline.ledger.connection import Ledger, statement


def dimension(spark: SparkSession, table: str) -> DataFrame:
    """All rows of `schema.table` in the ledger's database, as they are now; they pass through the driver's memory.

    A replay of old offsets sees today's rows, not those of the first load.
    """
    query = SQL(statement("spark_jobs", "select_dimension.sql")).format(table=Identifier(*table.split(".")))
    with Ledger(settings.ledger_url(), actor="dimension") as ledger:
        text = query.as_string(ledger.connection)
    with closing(adbc.connect(settings.ledger_url())) as connection, connection.cursor() as cursor:
        cursor.execute(text)
        return spark.createDataFrame(cursor.fetch_arrow_table())
