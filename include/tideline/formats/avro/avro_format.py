"""The format `avro`: which schema each record was written with, and its columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tideline.declaration.mistakes import shown
from tideline.declaration.source import Key, Value
from tideline.domain.reject_reasons import one_line
from tideline.domain.schemas import Schema, Schemas
from tideline.errors import FatalError
from tideline.formats.arrow_types import arrow_type
from tideline.formats.avro import lockstep, one_by_one, resolution
from tideline.formats.avro.lockstep import WriterGroup
from tideline.formats.avro.schema import RecordType, parsed
from tideline.formats.avro.single_record import FaultError
from tideline.formats.confluent_frame import RegisteredSchemas, without_nulls
from tideline.formats.cursor import Cursor, Rows
from tideline.formats.format import Decode, Decoded, RawRecords
from tideline.formats.reader import Reader, SchemaFit, declared_reader
from tideline.formats.undeclared import of_schemas

_KIND = "AVRO"


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """Records without a frame, all written with one schema: of a file in the pipeline's folder.

    A column that the schema has not is null, or what is declared for this; a field that is not declared is read over.
    """

    reader: Reader
    schema: RecordType

    def decoder(self, _schemas: Schemas) -> Decode:
        """Return what decodes the batches of one task."""
        return self._decoded

    def _decoded(self, raw: RawRecords) -> Decoded:
        records = without_nulls(raw)
        group = WriterGroup(np.arange(len(records.bodies)), self.schema)
        return records.with_decoded(decoded(records.bodies, [group], self.reader))


@dataclass(frozen=True, slots=True)
class RegisteredAvroFormat:
    """Records in the frame of a schema registry, each of which names the schema that it was written with."""

    reader: Reader

    def decoder(self, schemas: Schemas) -> Decode:
        """Return what decodes the batches of one task."""
        registered = RegisteredSchemas(schemas, _KIND, self._readable)

        def decode(raw: RawRecords) -> Decoded:
            records, groups = registered.groups(raw)
            return records.with_decoded(decoded(records.bodies, [WriterGroup(*one) for one in groups], self.reader))

        return decode

    def compared(self, schema: Schema) -> SchemaFit:
        """Compare a schema with the declared columns."""
        if schema.kind != _KIND:
            return SchemaFit(reason=f"expected a schema of the kind {_KIND}, found {schema.kind}")
        writer = self._readable(schema)
        if isinstance(writer, str):
            return SchemaFit(reason=writer)
        return self.reader.compared(name for name, _ in writer.fields)

    def _readable(self, schema: Schema) -> RecordType | str:
        """Return a schema in the names of the columns, or why no record that was written with it can be read."""
        try:
            writer = resolution.renamed(parsed(schema.text, [one.text for one in schema.references]), self.reader)
        except ValueError as error:
            return str(error)
        return misfit(writer, self.reader) or writer


def declared(section: Value | Key, folder: Path) -> AvroFormat | RegisteredAvroFormat:
    """Return the format of a section that names a schema file, or whose records are in the frame of a registry.

    Raises:
        FatalError: The file cannot be read, holds no schema, or one that does not fit the columns; or a default does not fit its column.
    """
    reader = declared_reader(section, folder)
    if section.schema_file is None:
        return RegisteredAvroFormat(reader)
    path = folder / section.schema_file
    try:
        schema = resolution.renamed(parsed(path.read_text(encoding="utf-8")), reader)
        problem = misfit(schema, reader)
    except OSError as error:
        problem = f"expected an Avro schema, as {section.schema_file} is declared, found {error.strerror}"
    except ValueError as error:  # no schema, or no text
        problem = str(error)
    if problem:
        raise FatalError(
            f"{shown(path)}: no schema for these columns: {problem}",
            next_step="correct the file or the columns; docs/pipelines.md#avro says which types fit",
            entry="records-with-a-schema",
        )
    return AvroFormat(reader, schema)


def misfit(schema: RecordType, reader: Reader) -> str | None:
    """Return why no record of a schema has these columns; None if they may."""
    if found := resolution.unreadable(schema):
        return f"the schema has {found}, which cannot be read"
    for name, node in schema.fields:
        if name in reader.columns and (reason := resolution.misfit(node, reader.columns[name])):
            return f"{name}: {reason}"
    return reader.refusal(resolution.undeclared(schema, reader.columns))


def decoded(records: pa.BinaryArray, groups: Sequence[WriterGroup], reader: Reader) -> Decoded:
    """Decode the records of the groups, none of them null. What is in no group is neither kept nor rejected."""
    of_rest = [] if reader.rest is None else [(reader.rest, pa.string())]
    wanted = pa.schema([*((name, arrow_type(kind)) for name, kind in reader.columns.items()), *of_rest])
    cursor = Cursor(records)
    rows, columns = lockstep.columns_of(cursor, groups, reader)
    table = pa.table(columns, schema=wanted)
    is_good = ~cursor.failed[rows]
    kept = rows[is_good]
    table = table if len(kept) == len(rows) else table.take(pa.array(np.flatnonzero(is_good)))
    rejected = {row: one_line(reason) for row, reason in cursor.reasons.items() if reason != lockstep.LONG}
    long = [row for row, reason in cursor.reasons.items() if reason == lockstep.LONG]
    if long:
        beside = [
            _by_themselves(records, group, np.intersect1d(group.rows, long), reader, rejected) for group in groups
        ]
        kept = np.concatenate([kept, *(places for places, _ in beside)])
        order = np.argsort(kept)
        table, kept = pa.concat_tables([table, *(part for _, part in beside)]).take(pa.array(order)), kept[order]
    return Decoded(
        table=table,
        kept=pa.array(kept, pa.int64()),
        rejected=dict(sorted(rejected.items())),
        undeclared=of_schemas((group.rows, resolution.undeclared(group.schema, reader.columns)) for group in groups),
    )


def _by_themselves(
    records: pa.BinaryArray, group: WriterGroup, long: Rows, reader: Reader, rejected: dict[int, str]
) -> tuple[Rows, pa.Table]:
    """Decode those records of a group that have long arrays. Return which of them are good, and their columns, and add the others to `rejected`."""
    rows: dict[int, Mapping[str, Any]] = {}
    for row in long.tolist():
        try:
            rows[row] = one_by_one.row_of(records[row].as_py(), group.schema, reader.columns, reader.rest)
        except FaultError as error:
            rejected[row] = one_line(str(error))
    written = {name for name, _ in group.schema.fields}
    columns = {
        name: pa.array([row[name] for row in rows.values()], arrow_type(kind))
        if name in written
        else reader.missing(name, len(rows))
        for name, kind in reader.columns.items()
    }
    if reader.rest is not None:
        columns[reader.rest] = pa.array([row[reader.rest] for row in rows.values()], pa.string())
    return np.array([*rows], np.int64), pa.table(columns)
