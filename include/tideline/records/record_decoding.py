"""Decode whole records: their values, their keys if the declaration names a format for them, and tombstones as it says.

Keys and values have the same strict decoders. A record whose key does not decode is a reject like one whose value does
not. It runs in the executors' Python and imports no pyspark.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from tideline.declaration.source import Source
from tideline.domain.reject_reasons import one_line
from tideline.domain.schemas import NoSchemas, Part, Schemas
from tideline.formats import kinds
from tideline.formats.format import Decode, Decoded, DecodedDeletions, Format, RawRecords, TellsDeletions
from tideline.formats.undeclared import Undeclared


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecords:
    """One decoded batch. Every position of the input is in one of `kept`, `deleted` and `rejected`."""

    table: pa.Table
    """The columns of the good records, those of the key first, in the order of the input."""
    kept: pa.Int64Array
    """The position in the input of each row of `table`, ascending."""
    deletions: pa.Table
    """The columns of the keys of records that delete, and what else these say, in the order of the input."""
    deleted: pa.Int64Array
    """The position in the input of each row of `deletions`, ascending."""
    rejected: dict[int, str]
    """The reason by position, ascending."""
    undeclared: Mapping[tuple[Part, str], Undeclared]
    """The fields that no column takes, of keys and of values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """How records are decoded."""

    value: Format
    key: Format | None
    """None if keys become no columns."""
    tombstones: Literal["reject", "keep", "delete"]

    @property
    def tells_deletions(self) -> bool:
        """Return whether values say which of them delete."""
        return isinstance(self.value, TellsDeletions)


def formats(source: Source, folder: Path) -> Formats:
    """Return how the pipeline in `folder` declares its records to be decoded.

    Raises:
        FatalError: A file that the declaration names is not there, or does not fit the columns.
    """
    value = kinds.declared(source.value, folder)
    if isinstance(value, TellsDeletions) and source.key is not None:
        value = value.beside_key(source.key.names)
    return Formats(
        value=value,
        key=None if source.key is None else kinds.declared(source.key, folder),
        tombstones=source.tombstones,
    )


DELETES = "it deletes a row, and source.tombstones is reject: declare keep or delete"
"""The reason of a record that deletes, where that is not declared."""


class RecordDecoder:
    """Decodes the keys and values of raw records.

    Args:
        declared: Their formats.
        schemas: Finds the schemas that records name by an id. By default there are none, for who decodes no record.
    """

    def __init__(self, declared: Formats, schemas: Schemas = NoSchemas()) -> None:  # noqa: B008 - it holds nothing
        self._value = declared.value.decoder(schemas)
        self._key = None if declared.key is None else _of_key(declared.key, schemas)
        self._tombstones = declared.tombstones
        self._tells_deletions = declared.tells_deletions

    def schema(self) -> pa.Schema:
        """Return the columns that a good record becomes."""
        none = pa.array([], pa.binary())
        return self(RawRecords(part="value", keys=none, values=none)).table.schema

    def __call__(self, raw: RawRecords) -> DecodedRecords:
        """Decode the records of one batch."""
        raw = raw.of("value")
        decoded = self._values(raw)
        deletions = decoded.deletions or _no_deletions()
        if self._key is None:
            return DecodedRecords(
                table=decoded.table,
                kept=decoded.kept,
                deletions=deletions.table,
                deleted=deletions.positions,
                rejected=decoded.rejected,
                undeclared=_of_part("value", decoded),
            )
        of_keys = self._key(raw.of("key"))
        rejected = of_keys.rejected | decoded.rejected
        kept, rows = _together(of_keys, decoded.kept, decoded.table)
        deleted, deletions_with_keys = _together(of_keys, deletions.positions, deletions.table)
        return DecodedRecords(
            table=rows,
            kept=kept,
            deletions=deletions_with_keys,
            deleted=deleted,
            rejected=dict(sorted(rejected.items())),
            undeclared=_of_part("value", decoded) | _of_part("key", of_keys),
        )

    def _values(self, raw: RawRecords) -> Decoded:
        """Decode values. What deletes is a reject, a row of nulls or a deletion, as it is declared."""
        if self._tells_deletions:
            found = self._value(raw)
        elif self._tombstones == "reject" or not raw.values.null_count:
            return self._value(raw)
        else:
            found = _beside_tombstones(self._value, raw)
        if self._tombstones == "delete" or found.deletions is None:
            return found
        return _as_rejects(found) if self._tombstones == "reject" else _as_rows(found)


def _no_deletions() -> DecodedDeletions:
    return DecodedDeletions(positions=pa.array([], pa.int64()), table=pa.table({}))


def _beside_tombstones(decode: Decode, raw: RawRecords) -> Decoded:
    """Decode values that are there, with a format that knows no deletions. Null values are deletions."""
    present = pc.indices_nonzero(raw.values.is_valid()).cast(pa.int64())
    absent = pc.indices_nonzero(raw.values.is_null()).cast(pa.int64())
    found = decode(raw.take(present))
    return Decoded(
        table=found.table,
        kept=present.take(found.kept),
        rejected={present[position].as_py(): reason for position, reason in found.rejected.items()},
        undeclared={name: one._replace(first=present[one.first].as_py()) for name, one in found.undeclared.items()},
        deletions=DecodedDeletions(positions=absent, table=pa.table({})),
    )


def _as_rejects(found: Decoded) -> Decoded:
    positions = found.deletions.positions.to_pylist() if found.deletions else []
    rejected = found.rejected | dict.fromkeys(positions, DELETES)
    return replace(found, rejected=dict(sorted(rejected.items())), deletions=None)


def _as_rows(found: Decoded) -> Decoded:
    """Return deletions as rows whose columns of the value are null, besides those that they have."""
    if found.deletions is None:
        return found
    positions, said = found.deletions.positions, found.deletions.table
    nulls = pa.table(
        {
            field.name: said.column(field.name)
            if field.name in said.column_names
            else pa.nulls(len(positions), field.type)
            for field in found.table.schema
        }
    )
    positions = pa.concat_arrays([found.kept, positions])
    order = pc.sort_indices(positions)
    return replace(
        found, table=pa.concat_tables([found.table, nulls]).take(order), kept=positions.take(order), deletions=None
    )


def _of_key(declared: Format, schemas: Schemas) -> Decode:
    """Return a decoder of keys, with reasons that name the key."""
    decode = declared.decoder(schemas)

    def of_keys(raw: RawRecords) -> Decoded:
        found = decode(raw)
        reasons = {
            position: one_line(f"key: {reason}") if raw.keys[position].is_valid else "key is null"
            for position, reason in found.rejected.items()
        }
        return replace(found, rejected=reasons)

    return of_keys


def _together(keys: Decoded, positions: pa.Int64Array, values: pa.Table) -> tuple[pa.Int64Array, pa.Table]:
    """Return those of the positions at which keys decoded too, and the columns of both."""
    is_there = pc.is_in(positions, value_set=keys.kept)
    kept = positions.filter(is_there)
    of_keys = _rows_at(keys, kept)
    columns = dict(zip(of_keys.column_names, of_keys.columns, strict=True))
    of_values = values.filter(is_there) if values.column_names else values  # without columns it has no rows
    return kept, pa.table(columns | dict(zip(of_values.column_names, of_values.columns, strict=True)))


def _rows_at(decoded: Decoded, positions: pa.Int64Array) -> pa.Table:
    if len(positions) == len(decoded.kept):
        return decoded.table
    return decoded.table.take(pc.index_in(positions, value_set=decoded.kept))


def _of_part(part: Part, decoded: Decoded) -> dict[tuple[Part, str], Undeclared]:
    return {(part, name): one for name, one in decoded.undeclared.items()}
