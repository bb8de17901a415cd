"""Apply a `frame` transform to a few rows, in a Spark session of this process, to show its result before anything is loaded."""

from collections.abc import Callable

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tideline.errors import FatalError
from tideline.records.kafka_metadata import coordinates_of
from tideline.records.transforms import frame_schema, framed
from tideline.spark_jobs.session import local_session
from tideline.spark_jobs.spark_errors import in_one_line


def framed_sample(name: str, frame: Callable[[DataFrame], DataFrame], decoded: pa.Table) -> pa.Table:
    """Return the rows that `frame` makes of decoded records.

    Args:
        name: The name of the pipeline.
        frame: The function of `transform.py`.
        decoded: The output of `records`, with the column `kafka`.

    Raises:
        FatalError: `frame` fails, or Spark does not start here.
    """
    spark = started(name)
    try:
        # In one chunk: Spark makes no rows at all of a table whose first chunk is empty.
        rows = coordinates_of(decoded).combine_chunks()
        given = framed(frame, spark.createDataFrame(rows, schema=from_arrow_schema(rows.schema)))
        frame_schema(given)
        return given.toArrow()
    except (PySparkException, Py4JError) as error:
        raise FatalError(
            f"{name}: transform.py: `frame` failed: {in_one_line(error)}",
            next_step="correct it; nothing was stored",
            entry="transform",
        ) from error


def started(name: str) -> SparkSession:
    """Return the Spark session of this process, and start it if there is none.

    Raises:
        FatalError: Spark does not start here.
    """
    try:
        return local_session(name)
    except PySparkRuntimeError as error:
        raise FatalError(
            f"{name}: Spark does not start in this process, and the transform has a `frame`: {in_one_line(error)}",
            next_step="install Java 17 or newer, and set JAVA_HOME or PATH to it",
            entry="environment",
        ) from error
