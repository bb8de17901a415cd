"""The Spark session of the job, with the settings that its reading and its results depend on."""

from pyspark.sql import SparkSession

WORKER_DAEMON = "spark_jobs.worker_daemon"
"""The module that starts Python workers, each as a copy of itself."""


def session(name: str) -> SparkSession:
    """The Spark session of this job: one serves all batches."""
    spark = (
        SparkSession.builder.appName(f"tideline {name}")
        # Naive timestamps would take the zone of the machine.
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "20000")
        # Spark's newer way into Kafka, off by default: an eighth faster, since records do not pass through Row objects.
        .config("spark.sql.sources.useV1SourceList", "avro,csv,json,orc,parquet,text")
        .config("spark.python.daemon.module", WORKER_DAEMON)
        # Each partition is read once, by one task: a consumer that is kept for five minutes keeps its fetched records for nothing, and some
        # twenty of them fill a small driver's memory.
        .config("spark.kafka.consumer.cache.timeout", "1s")
        .config("spark.kafka.consumer.cache.evictorThreadRunInterval", "1s")
        .config("spark.kafka.consumer.fetchedData.cache.timeout", "1s")
        .config("spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval", "1s")
        # A second copy of a slow task stages its rows twice for nothing: only one of the two can win.
        .config("spark.speculation", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    return spark
