"""A pipeline's `transform.py`: loaded once in the driver, and carried to the executors with the task.

    def records(batch: pyarrow.Table) -> pyarrow.Table      one row in, any number out, no knowledge of other rows
    def frame(df: pyspark.sql.DataFrame) -> DataFrame       sees the whole batch: joins, windows, aggregation

Either, both (`records` runs first) or none. Both get the decoded columns and the struct column `kafka`, and give `kafka` on with each row they
return: it says which record a row came from.
"""

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark import cloudpickle
from pyspark.errors.exceptions.captured import AnalysisException, CapturedException
from pyspark.sql import DataFrame

from spark_jobs.records.reject_reasons import of_error
from tideline.declaration.pipelines import Pipeline
from tideline.errors import FatalError, TidelineError

KAFKA = pa.struct(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.string()),
    ]
)
"""The struct column `kafka`: where a record was, and all of it as it came. `headers` is JSON, `[{"key": ..., "value": <base64>}, ...]`, or null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """What a pipeline does with decoded records."""

    records: Callable[[pa.Table], pa.Table] | None
    frame: Callable[[DataFrame], DataFrame] | None


class _AsWritten(SourceFileLoader):
    """Compiles the file as it stands.

    Python's own cache takes a file of the same size and second for the one that it has compiled: whoever corrects a transform at once, or deploys
    it with times that are set, would load with the old one.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Without the cache, and without writing one beside the declaration."""
        return self.source_to_code(self.get_data(self.path), self.get_filename(fullname))


def load(pipeline: Pipeline) -> Transform:
    """The functions of the pipeline's `transform.py`; none of them where there is no such file.

    Raises:
        FatalError: The file cannot be imported, or defines neither function.
    """
    path = pipeline.folder / "transform.py"
    if not path.exists():
        return Transform(records=None, frame=None)
    name = f"tideline_transform_{pipeline.name}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_AsWritten(name, str(path)))
    if spec is None or spec.loader is None:
        raise FatalError(f"{path}: not a Python file", next_step="correct the file's name", entry="transform")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FatalError(
            f"{path}: cannot be imported: {type(error).__name__}: {error}", next_step="correct it", entry="transform"
        ) from error
    # By value: an executor on another machine has Tideline installed, but not this pipeline's folder.
    cloudpickle.register_pickle_by_value(module)
    return _functions(module)


def _functions(module: ModuleType) -> Transform:
    transform = Transform(records=getattr(module, "records", None), frame=getattr(module, "frame", None))
    if transform.records is None and transform.frame is None:
        raise FatalError(
            f"{module.__file__}: expected a function `records` or `frame`, found neither",
            next_step="define one of them, or delete the file",
            entry="transform",
        )
    return transform


def records_schema(transform: Transform, decoded: pa.Schema) -> pa.Schema:
    """The columns that come out of `records`, found by giving it no rows.

    Raises:
        FatalError: It raises, returns something else than a table, or loses the column `kafka`.
    """
    empty = decoded.append(pa.field("kafka", KAFKA)).empty_table()
    if transform.records is None:
        return empty.schema
    try:
        given = transform.records(empty)
    except Exception as error:
        raise FatalError(
            f"transform.py: `records` raised on a table without rows: {type(error).__name__}: {error}",
            next_step="make it work for no rows: that is how its columns are found before anything is read",
            entry="transform",
        ) from error
    if not isinstance(given, pa.Table) or not _has_kafka(given.schema):
        raise FatalError(
            f"transform.py: `records` must return a pyarrow.Table with the column `kafka` as it came, found {_described(given)}",
            next_step="keep the column `kafka` in what it returns",
            entry="transform",
        )
    return given.schema


def framed(frame: Callable[[DataFrame], DataFrame], decoded: DataFrame) -> DataFrame:
    """What `frame` makes of the decoded records, lazily.

    Raises:
        FatalError: It raises, names columns that are not there, or returns something else than a DataFrame.
    """
    try:
        given = frame(decoded)
    except Exception as error:
        of_spark = isinstance(error, CapturedException | Py4JError) and not isinstance(error, AnalysisException)
        if of_spark or isinstance(error, TidelineError):
            raise  # it read something, and that is what failed
        raise FatalError(
            f"transform.py: `frame` raised {of_error(error)}",
            next_step="correct it; nothing was published",
            entry="transform",
        ) from error
    if not isinstance(given, DataFrame):
        raise FatalError(
            f"transform.py: `frame` must return a DataFrame, found {type(given).__name__}",
            next_step="correct it",
            entry="transform",
        )
    return given


def frame_schema(frame: DataFrame) -> pa.Schema:
    """The columns that come out of `frame`, without running it.

    Raises:
        FatalError: The column `kafka` is lost, or is another one.
    """
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - only frame pipelines need pandas

    schema: pa.Schema = to_arrow_schema(frame.schema, timezone="UTC")
    if not _has_kafka(schema):
        raise FatalError(
            "transform.py: `frame` must return the column `kafka` as it came, once; found columns "
            + ", ".join(schema.names),
            next_step="keep `kafka` through joins; an aggregation may keep max(kafka) of each group",
            entry="transform",
        )
    return schema


def _has_kafka(schema: pa.Schema) -> bool:
    """Whether `kafka` is there once and as it was; Spark narrows which of its parts may be null."""
    if schema.names.count("kafka") != 1:
        return False
    found = schema.field("kafka").type
    return pa.types.is_struct(found) and [(part.name, part.type) for part in found] == [(p.name, p.type) for p in KAFKA]


def _described(given: object) -> str:
    return f"columns {', '.join(given.schema.names)}" if isinstance(given, pa.Table) else type(given).__name__
