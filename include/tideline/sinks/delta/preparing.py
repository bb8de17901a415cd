"""Create the Delta table, or check that it can be written: its columns, and no feature that this sink does not keep."""

from collections import Counter

import pyarrow as pa
from deltalake import DeltaTable

from tideline.declaration.delta import DeltaSink
from tideline.declaration.pipelines import Pipeline
from tideline.domain.states import BatchKind
from tideline.errors import FatalError
from tideline.sinks.delta import added_columns, delta_features, delta_log
from tideline.sinks.delta.column_types import PARTITION_TYPES, delta_type, may_partition, misfit
from tideline.sinks.delta.delta_log import RefusedTableError
from tideline.sinks.delta.delta_table import COORDINATES, OWNER, PLACEHOLDER, DeltaOutput
from tideline.sinks.delta.delta_trials import tried
from tideline.sinks.kind import section

SHARED = "tideline.shared"
"""The property of a table that says whether the pipeline that owns it shares it."""


def prepare(output: DeltaOutput, pipeline: Pipeline, kind: BatchKind, produced: pa.Schema) -> pa.Schema:
    """Create the table if it does not exist, and check that it can be written. Return the columns that this pipeline fills, without coordinates.

    Columns that the batch adds are among them, see `added_columns`.

    Raises:
        FatalError: The columns do not fit, or the table has a feature that the sink does not keep. Nothing was read.
        RetryableError: Storage did not answer.
        NeedsOperatorError: The table must exist and does not.
    """
    fields = _without_kafka(produced)
    _check_produced(pipeline, fields)

    def once() -> pa.Schema:
        table = output.open()
        if table is None:
            table = output.create(_columns(fields))
        elif PLACEHOLDER in _arrow(table).names:
            delta_log.commit(table, [], transaction=None, metadata={}, schema=_columns(fields))
            return once()  # as it is now
        return _checked(table, pipeline, kind, fields)

    return tried(output.location, "load", once)


def _columns(fields: pa.Schema) -> pa.Schema:
    """Return the columns of a new table: what the transform produces, then the coordinates."""
    given = [pa.field(field.name, delta_type(field.type)) for field in fields]
    return pa.schema([*given, *COORDINATES])


def _arrow(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema())


def _check_produced(pipeline: Pipeline, fields: pa.Schema) -> None:
    sink = section(pipeline, DeltaSink)
    problems = [
        f"{name}: produced twice" for name, n in Counter(name.lower() for name in fields.names).items() if n > 1
    ]
    for field in fields:
        if field.name in {*COORDINATES.names, PLACEHOLDER}:
            problems.append(f"{field.name}: filled by the sink, the transform must not return it")
        elif any(sign in field.name for sign in " ,;{}()\n\t="):
            problems.append(f"{field.name}: Delta allows no blank and none of ,;{{}}()= in a name")
        else:
            try:
                delta_type(field.type)
            except ValueError as error:
                problems.append(f"{field.name}: Arrow type {field.type}: {error}")
    for name in sink.partition_by:
        if name not in fields.names or name == sink.item:
            problems.append(
                f"{name}: sink.partition_by names it, expected a column of the transform that is not sink.item"
            )
        elif not may_partition(fields.field(name).type):
            problems.append(f"{name}: sink.partition_by names it, expected {PARTITION_TYPES}")
    if sink.item is not None and sink.item not in fields.names:
        problems.append(f"{sink.item}: sink.item names it, the transform does not return it")
    _refuse(pipeline, problems)


def _checked(table: DeltaTable, pipeline: Pipeline, kind: BatchKind, fields: pa.Schema) -> pa.Schema:
    columns = _arrow(table)
    if unkept := delta_features.unkept(table, replaces=kind is BatchKind.REPLAY):
        raise RefusedTableError(delta_features.said(unkept), unkept)
    partitions, sink = tuple(table.metadata().partition_columns), section(pipeline, DeltaSink)
    lacks = added_columns.lacking(columns, fields) if sink.adds_columns else pa.schema([])
    columns = pa.schema([*columns, *lacks])
    problems = [*_misfits(columns, fields), *_of_another(table, pipeline)]
    if partitions != sink.partition_by:
        problems.append(f"it is partitioned by ({', '.join(partitions)}), declared is ({', '.join(sink.partition_by)})")
    _refuse(pipeline, problems)
    if properties := _to_own(table, pipeline):
        delta_log.set_properties(table, properties)
    return pa.schema([columns.field(name) for name in fields.names])


def lacking(pipeline: Pipeline, produced: pa.Schema) -> list[tuple[str, str]]:
    """Return names and types of the columns that a batch of the pipeline adds to its table; none as well if there is no table yet.

    Raises:
        RetryableError: Storage did not answer.
        FatalError: A variable of the environment is not set.
    """
    table = delta_log.of(pipeline).open() if pipeline.sink.adds_columns else None
    if table is None or PLACEHOLDER in _arrow(table).names:
        return []
    return [(field.name, str(field.type)) for field in added_columns.lacking(_arrow(table), _without_kafka(produced))]


def _without_kafka(produced: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in produced if field.name != "kafka"])


def _shares(pipeline: Pipeline) -> bool:
    return pipeline.sink.shared


def _of_another(table: DeltaTable, pipeline: Pipeline) -> list[str]:
    """Return why the table may not be written, if a pipeline owns it that does not share it. The ledger knows only pipelines of its own."""
    properties = table.metadata().configuration
    owner = properties.get(OWNER, pipeline.name)
    if owner == pipeline.name or (_shares(pipeline) and properties.get(SHARED) == "true"):
        return []
    to_share = f"to share it, both declare sink.shared: true, and {owner} loads once"
    given_up = f"if {owner} was given up, set this property to {pipeline.name}"
    return [f"it is the table of pipeline {owner} ({OWNER}); {to_share}; {given_up}"]


def _to_own(table: DeltaTable, pipeline: Pipeline) -> dict[str, str]:
    """Return the properties that the owner of the table has still to set: one that was created beforehand has no owner."""
    properties = table.metadata().configuration
    wanted = {OWNER: pipeline.name} | (
        {SHARED: str(_shares(pipeline)).lower()} if _shares(pipeline) or SHARED in properties else {}
    )
    is_owner = properties.get(OWNER, pipeline.name) == pipeline.name
    return {name: value for name, value in wanted.items() if properties.get(name) != value} if is_owner else {}


def _misfits(columns: pa.Schema, fields: pa.Schema) -> list[str]:
    problems = []
    for field in [*COORDINATES, *fields]:
        if field.name not in columns.names:
            problems.append(f"{field.name}: missing in the table")
        elif (why := misfit(field.type, columns.field(field.name))) is not None:
            problems.append(f"{field.name} {columns.field(field.name).type}: {why}")
    given = {*fields.names, *COORDINATES.names}
    problems += [
        f"{column.name}: NOT NULL, but not produced"
        for column in columns
        if not column.nullable and column.name not in given
    ]
    return problems


def _refuse(pipeline: Pipeline, problems: list[str]) -> None:
    if problems:
        raise FatalError(
            f"{pipeline.name}: the Delta table does not fit what the transform produces: {'; '.join(problems)}",
            next_step=f"alter the table, or correct {pipeline.folder.name}/transform.py or the section sink; nothing was read",
            entry="table-does-not-fit",
        )
