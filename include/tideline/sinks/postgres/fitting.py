"""Compare what a transform produces with what the target table has. Knows no database: the table is described by its caller."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tideline.declaration import Pipeline, PostgresSink
from tideline.domain.columns import WHOLE
from tideline.errors import FatalError
from tideline.sinks.postgres.column_types import Column, added, misfit

COORDINATES = ("kafka_topic_id", "kafka_partition", "kafka_offset", "tideline_batch")
"""Columns that every output table has: the record that a row came from, and the batch that wrote it."""
STAGED_STREAM, STAGED_TASK, STAGED_ROW = "tideline_stream", "tideline_task", "tideline_row"
"""Extra columns of staged rows: the stream of the row's record, the Spark task that stages the row, and the row's number in its Arrow batch."""
STAGED_EXPIRED = "tideline_expired"
"""The same, of a stateful pipeline: whether a timer has made the row."""
FILLED = (*COORDINATES, STAGED_STREAM, STAGED_TASK, STAGED_ROW, STAGED_EXPIRED, "tideline_law")
"""Columns that the sink fills: the only names, besides `kafka` and those of Postgres itself, that a transform cannot return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a table has, as far as a load depends on it."""

    columns: Mapping[str, Column]
    keys: Sequence[Sequence[str]]
    """The columns of each primary or unique key that is in force."""
    partition_keys: Sequence[tuple[Sequence[str], Sequence[str]]] = ()
    """Of a partitioned table: the columns of each unique key, in order, and the columns that the table is partitioned by."""
    row_security: bool = False
    """Whether row-level security applies to the user who writes."""
    kind: str | None = None
    """The letter by which Postgres names the kind of relation. None if there is none, or it is not known."""
    rules: Sequence[tuple[str, str]] = ()
    """The rules of the table, each with the statement that it rewrites."""
    unlogged: Sequence[str] = ()
    """The tables that a crash of the server empties: the table itself, or partitions of it."""
    is_owned: bool = True
    """Whether the role that writes may alter the table. Also true where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """How a table keeps the newest record of each key."""

    key: tuple[str, ...]
    order: tuple[str, ...]
    """The columns that say which of two records is newer; empty if topic and offset do."""


def upsert_of(sink: PostgresSink) -> Upsert | None:
    """Return how the table of a sink keeps the newest records; None if each record is a row."""
    return Upsert(key=sink.key, order=sink.order) if sink.mode == "upsert" else None


def lacking(table: Described, produced: pa.Schema | None, pipeline: Pipeline) -> tuple[Column, ...]:
    """Return the columns that a batch of the pipeline adds to the table; none if its declaration does not say so.

    A column that the declaration calls `json`, and whose values are texts here as well, becomes `jsonb`.
    """
    if produced is None or not pipeline.sink.adds_columns:
        return ()
    documents = {name for name, kind in pipeline.source.value.columns.items() if kind.strip().lower() == WHOLE}
    fields = [field for field in written(produced) if field.name not in {*table.columns, *FILLED}]
    found = [(field, added(field.name, field.type)) for field in fields]
    return tuple(
        replace(column, type_name="jsonb") if column.type_name == "text" and field.name in documents else column
        for field, column in found
        if column is not None
    )


def problems(
    table: Described, produced: pa.Schema | None, sink: PostgresSink, lacks: Sequence[Column] = ()
) -> list[str]:
    """Return what keeps a load from writing into the table; nothing if it fits.

    Args:
        table: The table.
        produced: The columns that the transform returns. None if they are not known: only the table is checked.
        sink: How the table is declared.
        lacks: The columns that the batch adds to it.
    """
    item, upsert = sink.item, upsert_of(sink)
    table = replace(table, columns={**table.columns, **{column.name: column for column in lacks}})
    found = _misfits(table.columns, produced)
    if lacks and not table.is_owned:
        names = ", ".join(column.name for column in lacks)
        found.append(
            f"{names}: missing in the table, and only the role that owns it may add columns: add them with that role"
        )
    if table.row_security:
        found.append("row-level security applies to the writer's role: own the table with it, or give it BYPASSRLS")
    if upsert is not None:
        return found + _upsert_problems(table, produced, upsert)
    if partitioned_by(table, item) is None:
        found.append(
            f"no primary or unique key on exactly ({', '.join(_key(item))}), or on these with the columns behind them "
            "that the table is partitioned by"
        )
    return found


def listed(columns: Iterable[Column]) -> str:
    """Return names and types, for messages."""
    return ", ".join(f"{column.name} {column.sql_type}" for column in columns)


_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table, whose server commits by itself",
    "S": "a sequence",
    "i": "an index",
    "I": "an index",
    "c": "a type",
}


def unkept(table: Described, sink: PostgresSink) -> list[str]:
    """Return why a table would not keep each row as it is inserted; nothing if it does, or if there is none.

    Triggers are none of these: they are part of what a table does with its rows, and a row that one leaves out makes its record a reject.
    """
    if table.kind is not None and table.kind not in {"r", "p"}:
        return [f"{sink.table} is {_KINDS.get(table.kind, 'no table')}"]
    # An append never updates, and a replay whose DELETE is rewritten fails loudly at the table's key.
    rewritten = {"INSERT", "UPDATE", "DELETE"} if sink.mode == "upsert" else {"INSERT"}
    found = [
        f"rule {name} rewrites each {event}: use a trigger instead" for name, event in table.rules if event in rewritten
    ]
    if table.unlogged and not sink.unlogged:
        names = ", ".join(table.unlogged)
        found.append(
            f"{names} is UNLOGGED: a crash of the server empties it, and its batches stay published. "
            "ALTER TABLE ... SET LOGGED, or declare sink.unlogged: true"
        )
    return found


def kept(table: Described, pipeline: Pipeline) -> Described:
    """Return the table. Refuse what would not keep each row as it is inserted, before target.sql or a publication fails because of it.

    Raises:
        FatalError: It is no table, has rules, or is UNLOGGED without consent.
    """
    sink = pipeline.table_sink
    if found := unkept(table, sink):
        raise FatalError(
            f"{pipeline.name}: {sink.table} does not keep rows as they are inserted: {'; '.join(found)}",
            next_step="let sink.table name an ordinary or a partitioned table, or change this one as said; nothing was read",
            entry="table-does-not-fit",
        )
    return table


def _upsert_problems(table: Described, produced: pa.Schema | None, upsert: Upsert) -> list[str]:
    wanted = sorted(upsert.key)
    named = (*upsert.key, *upsert.order)
    found = [
        f"{name}: named by the sink, but not produced"
        for name in named
        if produced is not None and name not in produced.names
    ]
    if not any(sorted(columns) == wanted for columns in table.keys):
        found.append(f"no primary or unique key on exactly ({', '.join(upsert.key)}), the columns of sink.key")
    found += [
        f"{name}: must be NOT NULL, so that the newest record of a key can be found"
        for name in dict.fromkeys((*named, *COORDINATES))
        if name in table.columns and not table.columns[name].not_null
    ]
    return found


def partitioned_by(table: Described, item: str | None) -> tuple[str, ...] | None:
    """Return the columns of the table's key behind coordinates and item, by which it is partitioned; None if no key fits."""
    wanted = sorted(_key(item))
    if any(sorted(columns) == wanted for columns in table.keys):
        return ()
    for columns, partitioning in table.partition_keys:
        # Coordinates must be first: a replay finds the rows to replace by them, in the index of each partition.
        first, rest = columns[: len(wanted)], columns[len(wanted) :]
        if sorted(first) == wanted and {*rest} <= {*partitioning}:
            return tuple(rest)
    return None


def written(produced: pa.Schema) -> pa.Schema:
    """Return the columns that the transform fills in the table: all but `kafka`, which the sink replaces by the coordinates."""
    return pa.schema([field for field in produced if field.name != "kafka"])


def _key(item: str | None) -> list[str]:
    return [*COORDINATES[:3], *([item] if item else [])]


def _misfits(found: Mapping[str, Column], produced: pa.Schema | None) -> list[str]:
    problems = [f"{name}: missing in the table" for name in COORDINATES if name not in found]
    if produced is None:
        return problems
    fields = written(produced)
    problems += [f"{name}: produced twice" for name, count in Counter(fields.names).items() if count > 1]
    for field in fields:
        if field.name in FILLED:
            problems.append(f"{field.name}: filled by the sink, the transform must not return it")
        elif field.name not in found:
            problems.append(f"{field.name}: missing in the table")
        elif (why := misfit(field.type, found[field.name])) is not None:
            problems.append(f"{field.name} {found[field.name].type_name}: {why}")
    given = {*fields.names, *COORDINATES}
    problems += [
        f"{column.name}: NOT NULL, but not produced"
        for column in found.values()
        if column.required and column.name not in given
    ]
    return problems
