"""Read a Delta table with Spark's own reader, in a process of its own, and print its rows as JSON.

python read_with_spark.py PATH
"""

import sys

from pyspark.sql import SparkSession

from tideline.settings import PROJECT

DELTA = {
    "spark.jars": ",".join(map(str, sorted((PROJECT / ".local" / "jars" / "delta").glob("*.jar")))),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

if __name__ == "__main__":
    session = SparkSession.builder.master("local[1]").config(map=DELTA).getOrCreate()
    for row in session.read.format("delta").load(sys.argv[1]).toJSON().collect():
        print(row)
