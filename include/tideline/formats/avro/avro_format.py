"""The format `avro`: which schema a record was written with, and its columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tideline.declaration.mistakes import shown
from tideline.declaration.source import Key, Value
from tideline.domain.columns import ColumnType
from tideline.domain.reject_reasons import one_line
from tideline.errors import FatalError
from tideline.formats.arrow_types import arrow_type
from tideline.formats.avro import lockstep, one_by_one, resolution
from tideline.formats.avro.cursor import Cursor, Longs
from tideline.formats.avro.schema import RecordType, parsed
from tideline.formats.format import NULL, Decode, Decoded, RawRecords, columns_of


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """Records without a frame, all written with one schema: of a file in the pipeline's folder.

    A column that the schema has not is null; a field that is not declared is read over.
    """

    columns: Mapping[str, ColumnType]
    schema: RecordType

    def decoder(self) -> Decode:
        """Return what decodes the batches of one task."""
        return self._decoded

    def _decoded(self, raw: RawRecords) -> Decoded:
        values = _plain(raw.own)
        present = np.flatnonzero(np.asarray(values.is_valid()))
        found = decoded(values.drop_null(), self.schema, self.columns)
        rejected = dict.fromkeys(np.flatnonzero(np.asarray(values.is_null())).tolist(), NULL)
        rejected |= {int(present[position]): reason for position, reason in found.rejected.items()}
        kept = pa.array(present).take(found.kept)
        return Decoded(table=found.table, kept=kept, rejected=dict(sorted(rejected.items())))


def declared(section: Value | Key, folder: Path) -> AvroFormat:
    """Return the format of a section that names a schema file.

    Raises:
        FatalError: The file cannot be read, holds no schema, or one that does not fit the columns.
    """
    path = folder / str(section.schema_file)
    columns = columns_of(section)
    try:
        schema = parsed(path.read_text(encoding="utf-8"))
        problem = misfit(schema, columns)
    except OSError as error:
        problem = f"expected an Avro schema, as {section.schema_file} is declared, found {error.strerror}"
    except ValueError as error:  # no schema, or no text
        problem = str(error)
    if problem:
        raise FatalError(
            f"{shown(path)}: no schema for these columns: {problem}",
            next_step="correct the file or the columns; docs/pipelines.md#avro says which types fit",
            entry="avro-records",
        )
    return AvroFormat(columns, schema)


def misfit(schema: RecordType, columns: Mapping[str, ColumnType]) -> str | None:
    """Return why no record of a schema has these columns; None if they may."""
    if found := resolution.unreadable(schema):
        return f"the schema has {found}, which cannot be read"
    for name, node in schema.fields:
        if name in columns and (reason := resolution.misfit(node, columns[name])):
            return f"{name}: {reason}"
    return None


def decoded(records: pa.BinaryArray, schema: RecordType, columns: Mapping[str, ColumnType]) -> Decoded:
    """Decode records that were written with one schema, none of them null."""
    wanted = pa.schema([(name, arrow_type(kind)) for name, kind in columns.items()])
    if reason := misfit(schema, columns):
        none = wanted.empty_table()
        reasons = dict.fromkeys(range(len(records)), one_line(reason))
        return Decoded(table=none, kept=pa.array([], pa.int64()), rejected=reasons)
    cursor = Cursor(records)
    table = pa.table(lockstep.columns_of(cursor, schema, columns), schema=wanted)
    kept = np.flatnonzero(~cursor.failed)
    table = table if len(kept) == len(records) else table.take(pa.array(kept))
    long = [row for row, reason in cursor.reasons.items() if reason == lockstep.LONG]
    rejected = {row: one_line(reason) for row, reason in cursor.reasons.items() if reason != lockstep.LONG}
    if long:
        beside, places, faults = _long(records, long, schema, columns)
        together = np.concatenate([kept, places])
        order = np.argsort(together)
        table, kept = pa.concat_tables([table, beside]).take(pa.array(order)), together[order]
        rejected |= faults
    return Decoded(table=table, kept=pa.array(kept, pa.int64()), rejected=dict(sorted(rejected.items())))


def _long(
    records: pa.BinaryArray, long: Sequence[int], schema: RecordType, columns: Mapping[str, ColumnType]
) -> tuple[pa.Table, Longs, dict[int, str]]:
    """Decode records with long arrays by themselves. Return their rows, the positions of these, and the faults of the others."""
    rows: dict[int, Mapping[str, Any]] = {}
    faults = {}
    for position in long:
        try:
            rows[position] = one_by_one.row_of(records[position].as_py(), schema, columns)
        except one_by_one.FaultError as error:
            faults[position] = one_line(str(error))
    made = {name: pa.array([row[name] for row in rows.values()], arrow_type(kind)) for name, kind in columns.items()}
    return pa.table(made), np.array(list(rows), np.int64), faults


def _plain(values: pa.Array | pa.ChunkedArray) -> pa.BinaryArray:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        values = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
    return values.cast(pa.binary())
