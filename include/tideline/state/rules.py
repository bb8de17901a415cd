"""What a stateful pipeline declares, as the engine needs it: the key, the event time, the state's columns, and the rows."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Self

import pyarrow as pa

from tideline.declaration.pipelines import Pipeline
from tideline.declaration.state import Stateful
from tideline.domain.columns import ColumnType, DecimalType, SimpleType, parse_type
from tideline.domain.reject_reasons import of_error
from tideline.errors import FatalError
from tideline.formats.arrow_types import arrow_type
from tideline.processors import Processor
from tideline.records.transforms import KAFKA, Transform
from tideline.state import reference_tables
from tideline.state.keys import KEY_TYPES, is_key_type

_SIMPLE = {arrow_type(SimpleType(name)): SimpleType(name) for name in KEY_TYPES if name != "decimal"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How records are folded. It is pickled with each task."""

    processor: Processor
    key: Mapping[str, ColumnType]
    """The key columns and their types, in order."""
    event_time: str | None
    """The column of the event time; None for the timestamp of the Kafka record."""
    lateness: timedelta
    rejects_late: bool
    ahead: timedelta | None
    """How far the event time of a record may be ahead; None where records have no times of their own, as in a file."""
    columns: Mapping[str, ColumnType]
    """Of the state."""
    former: Mapping[str, Sequence[str]]
    """For a column of the state that had other names, these, newest first."""
    max_bytes: int
    rows: Mapping[str, ColumnType]
    """The columns of the processor's rows."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """The reference tables, as `schema.table`, by the processor's names for them."""
    given: Mapping[str, pa.Table] = field(default_factory=dict)
    """The rows of these, by the same names. Nothing before they are read."""

    def with_tables(self, given: Mapping[str, pa.Table]) -> Self:
        """Return the rules with the rows of the reference tables, which the processor accepts.

        Raises:
            FatalError: `open` of the processor fails.
        """
        found = replace(self, given=given)
        replace(
            found, processor=copy(self.processor)
        ).open()  # a copy: what it keeps would be sent to each task as well
        return found

    def open(self) -> None:
        """Give the processor its reference tables, before anything is folded with it.

        Raises:
            FatalError: `open` of the processor fails.
        """
        try:
            self.processor.open(self.given)
        except Exception as error:
            raise FatalError(
                f"`open` of the processor in transform.py failed: {of_error(error)}",
                next_step="correct transform.py, or the tables that it reads; nothing was published",
                entry="state-cannot-be-folded",
            ) from error

    @property
    def schema(self) -> pa.Schema:
        """Return the output columns, with the column `kafka` of the record that made the row."""
        columns = [pa.field(name, arrow_type(kind)) for name, kind in self.rows.items()]
        return pa.schema([*columns, pa.field("kafka", KAFKA)])


def rules_of(pipeline: Pipeline, transform: Transform, given: pa.Schema) -> Rules | None:
    """Return how a pipeline folds its records; None if it is not stateful.

    Args:
        pipeline: The pipeline.
        transform: Its transform.
        given: The columns that the processor gets: those of `records`, or of decoding.

    Raises:
        FatalError: The declaration names columns that do not exist or are of other types, or the processor is wrong.
    """
    if pipeline.state is None or transform.processor is None:
        return None
    return Rules(
        processor=transform.processor,
        key=_key(pipeline, pipeline.state, given),
        event_time=_event_time(pipeline, pipeline.state, given),
        lateness=pipeline.state.lateness,
        rejects_late=pipeline.state.late == "reject",
        ahead=pipeline.state.ahead,
        columns={name: parse_type(kind) for name, kind in pipeline.state.columns.items()},
        former={new: (old,) for new, old in pipeline.state.renamed.items()},
        max_bytes=pipeline.state.max_bytes,
        rows=_rows(pipeline, transform.processor),
        tables=_tables(pipeline, transform.processor),
    )


def _key(pipeline: Pipeline, declared: Stateful, given: pa.Schema) -> dict[str, ColumnType]:
    found = {}
    for name in declared.key_columns:
        kind = _key_type(_field(pipeline, "key", name, given).type)
        if kind is None or not is_key_type(kind):
            raise _mistake(
                pipeline,
                f"state.key: expected columns of the types {', '.join(KEY_TYPES)}, found {name} of Arrow type {given.field(name).type}",
            )
        found[name] = kind
    return found


def _key_type(kind: pa.DataType) -> ColumnType | None:
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return DecimalType(precision=kind.precision, scale=kind.scale)
    return _SIMPLE.get(kind)


def _event_time(pipeline: Pipeline, declared: Stateful, given: pa.Schema) -> str | None:
    if declared.event_time is None:
        return None
    kind = _field(pipeline, "event_time", declared.event_time, given).type
    if kind != arrow_type(SimpleType("timestamp")):
        raise _mistake(
            pipeline,
            f"state.event_time: expected a timestamp with a zone, found {declared.event_time} of Arrow type {kind}",
        )
    return declared.event_time


def _field(pipeline: Pipeline, key: str, name: str, given: pa.Schema) -> pa.Field:
    if given.names.count(name) != 1 or name == "kafka":
        known = ", ".join(one for one in given.names if one != "kafka") or "none"
        raise _mistake(pipeline, f"state.{key}: expected one of the columns {known}, found {name}")
    return given.field(name)


def _rows(pipeline: Pipeline, processor: Processor) -> dict[str, ColumnType]:
    declared = getattr(processor, "rows", None)
    if not isinstance(declared, Mapping) or not declared:
        raise _mistake(
            pipeline, "transform.py: expected `rows` of the processor with the columns of its rows, found none"
        )
    try:
        return {str(name): parse_type(kind) for name, kind in declared.items()}
    except (TypeError, ValueError) as error:
        raise _mistake(pipeline, f"transform.py: `rows` of the processor: {error}") from error


def _tables(pipeline: Pipeline, processor: Processor) -> dict[str, str]:
    try:
        return reference_tables.declared(processor)
    except (TypeError, ValueError) as error:
        raise _mistake(pipeline, f"transform.py: {error}") from error


def _mistake(pipeline: Pipeline, problem: str) -> FatalError:
    return FatalError(
        f"{pipeline.name}: the state cannot be folded as it is declared: {problem}",
        next_step="correct pipeline.yaml or transform.py; nothing was read",
        entry="state-cannot-be-folded",
    )
