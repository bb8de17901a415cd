"""Load a pipeline's `transform.py` once in the driver, from where it is sent to the executors with each task.

    def records(batch: pyarrow.Table) -> pyarrow.Table      one row in, any number out, no knowledge of other rows
    def frame(df: pyspark.sql.DataFrame) -> DataFrame       sees the whole batch: joins, windows, aggregation

A pipeline has either, both (`records` runs first) or none. Both receive the decoded columns and the struct column
`kafka`: `records` the whole record, `frame` what identifies it, since whatever else a frame had would be shuffled. They
must return `kafka` with each row, because it identifies the record that the row came from. In a stateful
pipeline `processor`, an instance of `tideline.processors.Processor`, takes the place of `frame`.
"""

import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from inspect import signature
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark import cloudpickle
from pyspark.errors.exceptions.captured import AnalysisException, CapturedException
from pyspark.sql import DataFrame, SparkSession

from tideline.declaration.pipelines import Pipeline
from tideline.domain.reject_reasons import of_error
from tideline.errors import FatalError, TidelineError
from tideline.processors import Processor

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
"""The struct column `kafka`: position and original content of a record. `headers` is JSON, `[{"key": ..., "value": <base64>}, ...]`, or null."""

COORDINATES = pa.struct([KAFKA.field(name) for name in ("topic", "partition", "offset", "timestamp")])
"""The struct column `kafka` of a frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """The functions that a pipeline applies to decoded records."""

    records: Callable[[pa.Table], pa.Table] | None
    frame: Callable[[DataFrame], DataFrame] | None
    processor: Processor | None = None


class _UncachedLoader(SourceFileLoader):
    """Always compiles the current content of the file.

    Python's bytecode cache treats a file of the same size and the same modification time in seconds as unchanged. A
    transform that is corrected within the same second, or deployed with fixed file times, would run in its old version.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Compile the file. Neither read a bytecode cache nor write one beside the declaration."""
        return self.source_to_code(self.get_data(self.path), self.get_filename(fullname))


class NeedsSparkError(FatalError):
    """The file can only be imported while a Spark session runs, as in the job: it defines a Spark function such as a UDF."""


def _needs_session(error: Exception) -> bool:
    """Return whether PySpark itself has raised while no session runs. What it raises then differs between its functions."""
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    return raised_in.is_relative_to(Path(pyspark.__file__).parent) and SparkSession.getActiveSession() is None


def load(pipeline: Pipeline) -> Transform:
    """Return what the pipeline's `transform.py` defines; nothing if there is no such file.

    Raises:
        FatalError: The file cannot be imported, defines nothing of this, or something that is no function or processor.
        NeedsSparkError: The file cannot be imported without a Spark session, and none runs.
    """
    path = pipeline.folder / "transform.py"
    if not path.exists():
        return Transform(records=None, frame=None)
    name = f"tideline_transform_{pipeline.name}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_UncachedLoader(name, str(path)))
    if spec is None or spec.loader is None:
        raise FatalError(f"{path}: not a Python file", next_step="correct the file's name", entry="transform")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        kind = NeedsSparkError if _needs_session(error) else FatalError
        raise kind(
            f"{path}: cannot be imported: {type(error).__name__}: {error}", next_step="correct it", entry="transform"
        ) from error
    # Pickled by value: an executor on another machine has Tideline installed, but not this pipeline's folder.
    cloudpickle.register_pickle_by_value(module)
    return _functions(module)


def _functions(module: ModuleType) -> Transform:
    named: dict[str, Any] = {name: getattr(module, name, None) for name in ("records", "frame")}
    processor = getattr(module, "processor", None)
    transform = Transform(**named, processor=processor)
    if transform.records is None and transform.frame is None and processor is None:
        raise FatalError(
            f"{module.__file__}: expected a function `records` or `frame`, found neither",
            next_step="define one of them, or delete the file",
            entry="transform",
        )
    if not (processor is None or isinstance(processor, Processor)):
        raise FatalError(
            f"{module.__file__}: expected `processor` to be an instance of a class that extends Processor, found {_kind(processor)}",
            next_step="derive the class from tideline.processors.Processor, and set `processor = YourClass()`",
            entry="transform",
        )
    for name, function in named.items():
        if not (function is None or callable(function)):
            raise FatalError(
                f"{module.__file__}: expected a function `{name}`, found {type(function).__name__}",
                next_step="define it as a function",
                entry="transform",
            )
    return transform


def _kind(value: object) -> str:
    return f"the class {value.__name__} itself" if isinstance(value, type) else type(value).__name__


def check_state(pipeline: Pipeline, transform: Transform) -> None:
    """Make sure that a pipeline has both a section `state` and a processor, or neither, and no `frame` beside them.

    Raises:
        FatalError: It has only one of them, or a `frame` too.
    """
    if (pipeline.state is None) != (transform.processor is None):
        has, lacks = ("the section `state` in pipeline.yaml", "`processor` in transform.py")
        if pipeline.state is None:
            has, lacks = lacks, has
        raise FatalError(
            f"transform.py: expected {lacks} beside {has}, found none",
            next_step="add the one, or remove the other; docs/pipelines.md explains stateful pipelines",
            entry="transform",
        )
    if transform.processor is not None and transform.frame is not None:
        raise FatalError(
            "transform.py: expected `processor` or `frame`, found both",
            next_step="let the processor return the rows, and remove `frame`",
            entry="transform",
        )


def records_schema(transform: Transform, decoded: pa.Schema) -> pa.Schema:
    """Return the output columns of `records`, by a call with a table without rows.

    Raises:
        FatalError: `records` raises, does not return a table, or loses the column `kafka`.
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
            f"transform.py: `records` must return a pyarrow.Table with the column `kafka` unchanged, found {_described(given)}",
            next_step="keep the column `kafka` in what it returns",
            entry="transform",
        )
    return given.schema


def framed(frame: Callable[[DataFrame], DataFrame], decoded: DataFrame) -> DataFrame:
    """Apply `frame` to the decoded records, lazily.

    Raises:
        FatalError: `frame` raises, names columns that do not exist, or does not return a DataFrame.
    """
    try:
        given = frame(decoded)
    except Exception as error:
        of_spark = isinstance(error, CapturedException | Py4JError) and not isinstance(error, AnalysisException)
        if of_spark or isinstance(error, TidelineError):
            raise  # `frame` ran a query, and that has failed
        raise _raised(error) from error
    if not isinstance(given, DataFrame):
        raise FatalError(
            f"transform.py: `frame` must return a DataFrame, found {type(given).__name__}",
            next_step="correct it",
            entry="transform",
        )
    return given


def _raised(error: Exception) -> FatalError:
    """Return the error to raise if `frame` has raised one."""
    step = "correct it; nothing was published"
    if isinstance(error, AnalysisException) and error.getCondition() == "FIELD_NOT_FOUND":
        step = (
            f"`kafka` of a frame has {', '.join(part.name for part in COORDINATES)}, and neither key, value nor headers: "
            "let `records` copy what the frame needs into columns, or declare source.key; nothing was published"
        )
    return FatalError(f"transform.py: `frame` raised {of_error(error)}", next_step=step, entry="transform")


def frame_schema(frame: DataFrame) -> pa.Schema:
    """Return the output columns of `frame`, without running it.

    Raises:
        FatalError: The column `kafka` is missing, occurs twice, or has another type.
    """
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - only frame pipelines need pandas

    # Spark 4.2 wants the zone of timestamps said; before, it was always UTC.
    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    schema: pa.Schema = to_arrow_schema(frame.schema, **zone)
    if not _has_kafka(schema, COORDINATES):
        raise FatalError(
            "transform.py: `frame` must return the column `kafka` unchanged, once; found columns "
            + ", ".join(schema.names),
            next_step="keep `kafka` through joins; an aggregation may keep max(kafka) of each group",
            entry="transform",
        )
    return schema


def _has_kafka(schema: pa.Schema, kafka: pa.StructType = KAFKA) -> bool:
    """Return whether `kafka` occurs once with its original type. Nullability is ignored, since Spark may change it."""
    if schema.names.count("kafka") != 1:
        return False
    found = schema.field("kafka").type
    return pa.types.is_struct(found) and [(part.name, part.type) for part in found] == [(p.name, p.type) for p in kafka]


def _described(given: object) -> str:
    return f"columns {', '.join(given.schema.names)}" if isinstance(given, pa.Table) else type(given).__name__
