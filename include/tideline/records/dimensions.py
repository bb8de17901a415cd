"""Read small tables of the ledger's database, so that `frame` transforms can join with them."""

from pyspark.sql import DataFrame, SparkSession

from tideline.records import database_tables


def dimension(spark: SparkSession, table: str) -> DataFrame:
    """Return all current rows of `schema.table` in the ledger's database. They are held in the driver's memory.

    Types are as in `database_tables.read`. A replay of old offsets sees today's rows, not those of the first load.

    Raises:
        FatalError: The table or view does not exist, or TIDELINE_LEDGER_URL is not set.
        RetryableError: The database did not answer.
    """
    return spark.createDataFrame(database_tables.read([table], reader="dimension")[table])
