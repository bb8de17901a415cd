"""What a pipeline's `transform.py` imports: `from tideline.transforms import dimension`.

from pyspark.sql import functions as F
from tideline.transforms import dimension

def frame(df):
    offers = dimension(df.sparkSession, "ads.offers").select("offer_id", "advertiser")
    return df.join(F.broadcast(offers), "offer_id", "left")
"""

from pyspark.sql import DataFrame, SparkSession

from tideline.records import database_tables

__all__ = ["dimension"]


def dimension(spark: SparkSession, table: str) -> DataFrame:
    """Return all current rows of `schema.table` in the ledger's database. They are held in the driver's memory.

    Types are as in `database_tables.read`. A replay of old offsets sees today's rows, not those of the first load.

    Raises:
        FatalError: The table or view does not exist, or TIDELINE_LEDGER_URL is not set.
        RetryableError: The database did not answer.
    """
    return spark.createDataFrame(database_tables.read([table], reader="dimension")[table])
