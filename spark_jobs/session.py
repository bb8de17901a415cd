"""Create the Spark session of the job, with the settings that correct results and fast reads depend on."""

import logging
import os
import shlex
import sys

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tideline import settings
from tideline.records.record_steps import BATCH_RECORDS

WORKER_DAEMON = "tideline.spark_jobs.worker_daemon"
"""The module that starts Python workers, by forking itself."""


SETTINGS = {
    # Otherwise timestamps without a zone would be interpreted in the time zone of the machine.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_RECORDS),
    # Kafka is not in this list, so Spark uses its newer (V2) Kafka reader, which is off by default. It is an eighth
    # faster, since it creates no Row objects.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    "spark.python.daemon.module": "tideline.spark_jobs.worker_launcher",
    # Each partition is read once, by one task. By default Spark caches a consumer and its fetched records for five
    # minutes. That is useless here, and some twenty cached consumers fill a small driver's memory.
    "spark.kafka.consumer.cache.timeout": "1s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "1s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "1s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1s",
    # A speculative copy of a slow task would stage its rows a second time for nothing: only one of the two tasks can
    # win.
    "spark.speculation": "false",
}
"""What the job sets, whatever the deployment's properties say. A declaration that sets one of these is refused."""


def session(name: str) -> SparkSession:
    """Return the Spark session of this job. All batches share it."""
    spark = SparkSession.builder.appName(f"tideline {name}").config(map=SETTINGS).getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def local_session(name: str) -> SparkSession:
    """Return a Spark session that runs in this process, for a few rows; the one that runs already, if there is one."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # a laptop's host name may have no address
    properties = settings.spark_properties()
    if properties:
        os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--properties-file {shlex.quote(properties)} pyspark-shell")
    here = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    if not properties:
        # It lives for seconds: the second compiler and a parallel collector cost more than they save.
        here["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    is_new = SparkSession.getActiveSession() is None
    spark = SparkSession.builder.appName(f"tideline {name}").config(map=SETTINGS | here).getOrCreate()
    if is_new:
        spark.sparkContext.setLogLevel("OFF")  # an error reaches the caller as an exception
        PySparkLogger.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    return spark
