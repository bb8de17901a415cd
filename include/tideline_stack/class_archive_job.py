"""The Spark job that `class_archive` runs: the steps of every load, on a hundred records. Run by spark-submit, never imported."""

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


def passing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield every batch unchanged. The function exists so that the batches pass through a Python worker."""
    yield from batches


def main() -> None:
    """Read the whole topic, pass it through a Python worker as Arrow, aggregate and collect. Print a line at the end."""
    bootstrap, topic = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap, "assign": f'{{"{topic}": [0]}}', "includeHeaders": "true"}
    options |= {"startingOffsets": f'{{"{topic}": {{"0": 0}}}}', "endingOffsets": f'{{"{topic}": {{"0": 100}}}}'}
    records = spark.read.format("kafka").options(**options).load().select("partition", "offset", "key", "value")
    counted = records.mapInArrow(passing, records.schema).groupBy("partition").count().collect()
    spark.stop()
    if [row["count"] for row in counted] != [100]:
        sys.exit(f"expected 100 records of one partition, found {counted}")
    print("done", flush=True)


if __name__ == "__main__":
    main()
