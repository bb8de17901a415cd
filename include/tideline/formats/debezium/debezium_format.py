"""The format `debezium`: changes of a table's rows. A change that leaves a row becomes this row, one that deletes it a deletion."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tideline.declaration.source import Key, Value
from tideline.domain.columns import ColumnType, DecimalType, parse_type
from tideline.domain.reject_reasons import one_line
from tideline.domain.schemas import Schemas
from tideline.formats.avro.avro_format import RegisteredAvroFormat
from tideline.formats.confluent_frame import of_batch
from tideline.formats.debezium.changes import DELETES, LEAVES_A_ROW, Beside, no_row, untold, with_tombstones
from tideline.formats.debezium.connect_values import ConnectValueError, is_unavailable, said
from tideline.formats.debezium.envelope import Payload, Payloads
from tideline.formats.debezium.registered_changes import RegisteredDebeziumFormat
from tideline.formats.format import Decode, Decoded, Format, RawRecords, columns_of
from tideline.formats.json_format import JsonFormat
from tideline.formats.reader import declared_reader
from tideline.formats.undeclared import cleaned


@dataclass(frozen=True, slots=True)
class DebeziumFormat:
    """Changes in JSON, with the schema of the converter in each record or without one.

    With a schema, decimals, dates and times are what it says they are. Without one they are JSON as they stand.
    """

    columns: Mapping[str, ColumnType]
    envelope: Mapping[str, ColumnType]
    """The types of what stands beside the row, by the path to it, such as `source.lsn`. Its column is `source_lsn`."""
    refuses_undeclared: bool = False
    rest: str | None = None
    """The column that holds the fields of a row that no other takes; None without one."""
    of_key: frozenset[str] = frozenset()
    """The columns that keys become. A row has them as well."""

    def decoder(self, schemas: Schemas) -> Decode:
        """Return what decodes the batches of one task."""
        return _ChangeDecoder(self, schemas)

    def beside_key(self, names: Collection[str]) -> "DebeziumFormat":
        """See `TellsDeletions`."""
        return replace(self, of_key=frozenset(names))


@dataclass(frozen=True, slots=True)
class DebeziumKeyFormat:
    """Keys in JSON, with the schema of the converter in each of them or without one: the columns of the table's key."""

    inner: JsonFormat

    def decoder(self, schemas: Schemas) -> Decode:
        """Return what decodes the batches of one task."""
        decode, payloads = self.inner.decoder(schemas), Payloads(self.inner.columns, within=None)

        def decoded(raw: RawRecords) -> Decoded:
            found = _Objects()
            for position, one in enumerate(raw.own.to_pylist()):
                key = payloads.read(one)
                found.add(position, key if isinstance(key, str) else _said(key, key.value))
            return found.decoded(decode)

        return decoded


def declared(section: Value | Key, folder: Path) -> Format:
    """Return the format of a section with columns: of JSON, or of Avro in the frame of a registry."""
    is_framed, refuses = section.frame != "none", section.unknown == "reject"
    if isinstance(section, Key):
        if is_framed:
            return RegisteredAvroFormat(declared_reader(section, folder))
        return DebeziumKeyFormat(JsonFormat(columns_of(section), refuses))
    envelope = {path: parse_type(text) for path, text in section.envelope.items()}
    if is_framed:
        return RegisteredDebeziumFormat(columns_of(section), envelope, refuses, section.rest)
    return DebeziumFormat(columns_of(section), envelope, refuses, section.rest)


@dataclass(slots=True)
class _Objects:
    """Objects of one batch that the decoder of JSON is given, and why others are none."""

    texts: dict[int, bytes] = field(default_factory=dict)
    """By position, ascending."""
    rejected: dict[int, str] = field(default_factory=dict)

    def add(self, position: int, found: Mapping[str, Any] | str) -> None:
        """Add an object, or the reason why there is none."""
        if isinstance(found, str):
            self.rejected[position] = one_line(found)
        else:
            self.texts[position] = orjson.dumps(found)

    def decoded(self, decode: Decode) -> Decoded:
        """Return the columns of the objects."""
        texts = pa.array(self.texts.values(), pa.binary())
        found = decode(RawRecords(part="value", keys=texts, values=texts))
        return of_batch(np.fromiter(self.texts, np.int64, len(self.texts)), found, self.rejected)


class _ChangeDecoder:
    """Sorts changes into rows, deletions and rejects. The decoder of JSON judges their values."""

    def __init__(self, declared: DebeziumFormat, schemas: Schemas) -> None:
        self._payloads = Payloads(declared.columns, within="after")
        self._beside = Beside(declared.envelope)
        self._decimals = [name for name, kind in declared.columns.items() if isinstance(kind, DecimalType)]
        self._columns, self._rest = declared.columns, declared.rest
        self._of_key = sorted(declared.of_key - {*declared.columns})
        of_rows = JsonFormat({**declared.columns, **self._beside.columns}, declared.refuses_undeclared, declared.rest)
        self._of_rows = of_rows.decoder(schemas)
        self._of_deletions = JsonFormat(self._beside.columns).decoder(schemas)

    def __call__(self, raw: RawRecords) -> Decoded:
        rows, deletions, tombstones = _Objects(), _Objects(), list[int]()
        for position, one in enumerate(raw.own.to_pylist()):
            if one is None:
                tombstones.append(position)
                continue
            change = self._payloads.read(one)
            if isinstance(change, str):
                rows.add(position, change)
            elif change.value.get("op") == DELETES:
                deletions.add(position, self._beside.of_object(change.value))
            else:
                rows.add(position, self._row(change))
        found, deleted = rows.decoded(self._of_rows), deletions.decoded(self._of_deletions)
        return replace(
            found,
            rejected=dict(sorted((found.rejected | deleted.rejected).items())),
            deletions=with_tombstones(deleted.kept, deleted.table, tombstones),
        )

    def _row(self, change: Payload) -> Mapping[str, Any] | str:
        """Return the row that a change leaves, with what stands beside it, or the reason why there is none."""
        op, after = change.value.get("op"), change.value.get("after")
        if op not in LEAVES_A_ROW or not isinstance(after, dict):
            return no_row(op)
        # With a column for the others, each field of the row is in one.
        for name in (self._columns if self._rest is None else after) if change.may_hold_unavailable else ():
            if is_unavailable(after.get(name)):
                return untold(cleaned(name))
        for name in self._decimals:
            if isinstance(after.get(name), float):
                return f"{name}: expected an exact decimal, found a number with a point: set decimal.handling.mode to precise or string"
        said_row = _said(change, after)
        if isinstance(said_row, str):
            return said_row
        row = {**said_row, **self._beside.of_object(change.value)}
        for name in self._of_key:
            row.pop(name, None)
        return row


def _said(payload: Payload, row: Mapping[str, Any]) -> Mapping[str, Any] | str:
    """Return a row with its values as JSON has them, or the reason why one is none of its schema."""
    try:
        return said(payload.says, row) if payload.says else row
    except ConnectValueError as error:
        return str(error)
