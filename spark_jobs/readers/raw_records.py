"""Read the raw records of a batch: from the ledger for a re-drive, from Kafka for every other batch."""

from pyspark.sql import DataFrame, SparkSession

from tideline import settings
from tideline.declaration.pipelines import Pipeline
from tideline.domain.states import BatchKind
from tideline.kafka.settings import executor_settings, spark_settings
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.spark_jobs.readers import kafka, kept_rejects, python_client
from tideline.spark_jobs.readers.task_limits import TaskLimits


def read(
    spark: SparkSession,
    ledger: Ledger,
    pipeline: Pipeline,
    attempt: Attempt,
    limits: TaskLimits,
    *,
    by_python: bool = False,
) -> DataFrame:
    """Return the records of the attempt's ranges. Every action reads them again.

    Args:
        spark: The session.
        ledger: Holds the records of a re-drive.
        pipeline: Its source is read.
        attempt: Its ranges are read. They may be parts of those of its batch.
        limits: Of the tasks that read them.
        by_python: Whether Kafka is read with the Python client, where Spark's reader refuses a record.

    Raises:
        FatalError: A variable of the environment is not set, or a PEM file cannot be read.
    """
    source = pipeline.source
    if attempt.kind is BatchKind.REDRIVE:
        return kept_rejects.read(spark, ledger, settings.stager_url(), attempt, limits)
    if by_python:
        return python_client.read(spark, executor_settings(source), attempt.ranges, limits)
    return kafka.read(spark, spark_settings(source), attempt.ranges, limits)
