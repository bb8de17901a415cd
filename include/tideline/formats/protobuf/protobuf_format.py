"""The format `protobuf`: which message each record is of, and its columns."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.declaration.mistakes import shown
from tideline.declaration.source import Key, Value
from tideline.domain.reject_reasons import one_line
from tideline.domain.schemas import Schema, Schemas
from tideline.errors import FatalError
from tideline.formats.arrow_types import arrow_type
from tideline.formats.confluent_frame import Positions, RegisteredSchemas, without_nulls
from tideline.formats.cursor import Cursor
from tideline.formats.format import Decode, Decoded, RawRecords
from tideline.formats.protobuf.columns import columns_of
from tideline.formats.protobuf.compiling import Messages, ProtobufSchemaError, compiled
from tideline.formats.protobuf.decoding import NO_MESSAGE, decoder_of
from tideline.formats.protobuf.schema import FieldMisfitError, NarrowedMessage, narrowed, undeclared
from tideline.formats.protobuf.whole_values import WholeFaultError, WholeFields, whole_columns
from tideline.formats.reader import Reader, SchemaFit, declared_reader
from tideline.formats.undeclared import of_schemas

_KIND = "PROTOBUF"
_DEEPEST = 32
"""How many messages can stand around one in the frame of a registry."""
_LAST_BYTE = 2**31 - 1
Group = tuple[Positions, "ReadableSchema"]
"""Some of the records, and how they are read."""


@dataclass(frozen=True, slots=True)
class ProtobufFormat:
    """Records without a frame, all of one message of a file in the pipeline's folder."""

    reader: Reader
    files: bytes
    """The schema, with what it imports, as `protoc --descriptor_set_out` writes it."""
    name: str
    """The full name of the message."""

    def decoder(self, _schemas: Schemas) -> Decode:
        """Return what decodes the batches of one task."""
        schema = _readable(self.files, self.name, self.reader)

        def decode(raw: RawRecords) -> Decoded:
            records = without_nulls(raw)
            rows = np.arange(len(records.bodies))
            found = _decoded(records.bodies, [(rows, schema)], self.reader)
            return records.with_decoded(replace(found, undeclared=of_schemas([(rows, schema.undeclared)])))

        return decode


@dataclass(frozen=True, slots=True)
class RegisteredProtobufFormat:
    """Records in the frame of a schema registry, which names the schema of each, and its message by numbers."""

    reader: Reader
    name: str
    """The full name of the message that is expected."""

    def decoder(self, schemas: Schemas) -> Decode:
        """Return what decodes the batches of one task."""
        registered = RegisteredSchemas(schemas, _KIND, self._readable)

        def decode(raw: RawRecords) -> Decoded:
            records, groups = registered.groups(raw)
            heads = Heads(records.bodies)
            expected = [(heads.of(rows, one.messages, self.name), one) for rows, one in groups]
            found = _decoded(heads.bodies(), expected, self.reader)
            grouped = {row for rows, _ in groups for row in rows.tolist()} if heads.rejected else set()
            headless = {row: one_line(reason) for row, reason in heads.rejected.items() if row in grouped}
            undeclared = of_schemas((rows, one.undeclared) for rows, one in expected)
            return records.with_decoded(replace(found, rejected=found.rejected | headless, undeclared=undeclared))

        return decode

    def compared(self, schema: Schema) -> SchemaFit:
        """Compare a schema with the declared columns."""
        if schema.kind != _KIND:
            return SchemaFit(reason=f"expected a schema of the kind {_KIND}, found {schema.kind}")
        found = self._readable(schema)
        if isinstance(found, str):
            return SchemaFit(reason=found)
        fields = [field.name for field in found.messages.named(self.name).fields]
        names = self.reader.named(fields)
        return self.reader.compared(names.get(name, name) for name in fields)

    def _readable(self, schema: Schema) -> "ReadableSchema | str":
        """Return how the records of a schema are read, or why none can be."""
        try:
            return _readable(compiled(schema.text, schema.references), self.name, self.reader)
        except (ProtobufSchemaError, FieldMisfitError) as error:
            return str(error)


def declared(section: Value | Key, folder: Path) -> ProtobufFormat | RegisteredProtobufFormat:
    """Return the format of a section that names a schema file, or whose records are in the frame of a registry.

    Raises:
        FatalError: The file cannot be read, holds no schema, not the message, or one that does not fit the columns; or a default does not
            fit its column.
    """
    reader, name = declared_reader(section, folder), section.message or ""
    if section.schema_file is None:
        return RegisteredProtobufFormat(reader, name)
    path = folder / section.schema_file
    try:
        files = compiled(path.read_text(encoding="utf-8")) if path.suffix == ".proto" else path.read_bytes()
        _readable(files, name, reader)
        return ProtobufFormat(reader, files, name)
    except OSError as error:
        problem = f"expected a schema of Protobuf, as {section.schema_file} is declared, found {error.strerror}"
    except ValueError as error:  # no schema, no such message, one that does not fit, or no text
        problem = str(error)
    raise FatalError(
        f"{shown(path)}: no schema for these columns: {problem}",
        next_step="correct the file, the message or the columns; docs/pipelines.md#protobuf says which types fit",
        entry="records-with-a-schema",
    )


class Heads:
    """Which messages records in the frame of a registry are of: by their place in the file, and in each message around them.

    The law of the frame: the number of places, and then each; a single zero stands for the first message of the file.

    Args:
        bodies: The records behind the ids of their schemas.
    """

    def __init__(self, bodies: pa.BinaryArray) -> None:
        cursor, rows = Cursor(bodies), np.arange(len(bodies))
        start = cursor.pos.copy()
        n_places = cursor.longs(rows)
        cursor.fail(rows[(n_places < 0) | (n_places > _DEEPEST)], f"expected at most {_DEEPEST} message indexes")
        paths: dict[int, tuple[int, ...]] = {}
        for depth in range(_DEEPEST):
            open_ = rows[(n_places > depth) & ~cursor.failed]
            if not len(open_):
                break
            paths |= {
                row: (*paths.get(row, ()), place)
                for row, place in zip(open_.tolist(), cursor.longs(open_).tolist(), strict=True)
            }
        self._paths = [(0,), *dict.fromkeys(path for path in paths.values() if path != (0,))]
        numbers = {path: number for number, path in enumerate(self._paths)}
        self._number = np.zeros(len(bodies), np.int64)
        self._number[[*paths]] = [numbers[path] for path in paths.values()]
        self._bodies, self._lengths = bodies, np.where(cursor.failed, 0, cursor.pos - start)
        self.rejected = cursor.reasons
        """The reason of each record that has no such head, by its place."""

    def of(self, rows: Positions, messages: Messages, name: str) -> Positions:
        """Return those of the records that are of this message. The others are rejected."""
        for number in np.unique(self._number[rows]).tolist():
            found = messages.numbered(self._paths[number])
            if found != name:
                said = f"expected message {name}, found {found or 'no message'} at {list(self._paths[number])} of the schema"
                others = rows[self._number[rows] == number].tolist()
                self.rejected |= {row: said for row in others if row not in self.rejected}
        return rows[np.isin(rows, np.fromiter(self.rejected, np.int64, len(self.rejected)), invert=True)]

    def names(self, rows: Positions, messages: Messages) -> Counter[str]:
        """Count which messages of the schema these records are."""
        counts: Counter[str] = Counter()
        for row in rows.tolist():
            name = messages.numbered(self._paths[self._number[row]])
            if row not in self.rejected and name is not None:
                counts[name] += 1
        return counts

    def bodies(self) -> pa.BinaryArray:
        """Return the records behind their heads."""
        lengths = np.unique(self._lengths)
        if len(lengths) == 1:
            return pc.binary_slice(self._bodies, int(lengths[0]), _LAST_BYTE)
        records = zip(self._bodies.to_pylist(), self._lengths.tolist(), strict=True)
        return pa.array([record[length:] for record, length in records], pa.binary())


@dataclass(frozen=True, slots=True)
class ReadableSchema:
    """A schema whose records of the declared message can be read."""

    messages: Messages
    message: NarrowedMessage
    undeclared: tuple[str, ...]
    """The fields of the message that no column takes."""
    whole: WholeFields | None
    """Says the fields that columns hold whole; None if there is no such column."""


def _readable(files: bytes, name: str, reader: Reader) -> ReadableSchema:
    """Return how a message is read.

    Raises:
        ProtobufSchemaError: The files are none, or have no message of this name.
        FieldMisfitError: It does not fit the columns.
    """
    messages = Messages(files)
    message = messages.named(name)
    names = reader.named(field.name for field in message.fields)
    whole = whole_columns(reader)
    typed = {name: kind for name, kind in reader.columns.items() if name not in whole}
    found, beside = narrowed(message, typed, names), tuple(undeclared(message, reader.columns, names))
    if why := reader.refusal(beside):
        raise FieldMisfitError(why)
    return ReadableSchema(messages, found, beside, WholeFields(message, reader, names) if whole else None)


def _decoded(bodies: pa.BinaryArray, groups: Sequence[Group], reader: Reader) -> Decoded:
    """Decode the records of the groups, none of them null. What is in no group is neither kept nor rejected.

    Groups that are read alike are one: schemas that differ in other fields than columns, or in messages that no column takes. Where columns
    hold fields whole, no two schemas are alike.
    """
    alike: dict[tuple[NarrowedMessage, WholeFields | None], list[Positions]] = {}
    for rows, one in groups:
        alike.setdefault((one.message, one.whole), []).append(rows)
    of_rest = [] if reader.rest is None else [(reader.rest, pa.string())]
    wanted = pa.schema([*((name, arrow_type(kind)) for name, kind in reader.columns.items()), *of_rest])
    tables, kept = [wanted.empty_table()], [np.zeros(0, np.int64)]
    rejected: dict[int, str] = {}
    for (message, whole), parts in alike.items():
        rows = np.sort(np.concatenate(parts))
        records = bodies.take(pa.array(rows))
        batch, wrong = decoder_of(message).decoded(records)
        rejected |= dict.fromkeys(rows[wrong].tolist(), NO_MESSAGE)
        rows = np.delete(rows, wrong)
        columns, faults = columns_of(batch, message, reader.columns)
        if whole is not None:
            columns |= _whole(np.delete(records.to_numpy(zero_copy_only=False), wrong), whole, faults)
        rejected |= {int(rows[place]): one_line(reason) for place, reason in faults.items()}
        columns |= {name: reader.missing(name, len(rows)) for name in reader.columns.keys() - columns.keys()}
        table = pa.table(columns, schema=wanted)
        good = np.delete(np.arange(len(rows)), [*faults])
        tables.append(table.take(pa.array(good)) if faults else table)
        kept.append(rows[good])
    places = np.concatenate(kept)
    table, order = pa.concat_tables(tables), np.argsort(places)
    table = table if len(tables) == 2 else table.take(pa.array(order))  # noqa: PLR2004 - one group is in order
    return Decoded(table=table, kept=pa.array(places[order], pa.int64()), rejected=dict(sorted(rejected.items())))


def _whole(records: Iterable[bytes], whole: WholeFields, faults: dict[int, str]) -> dict[str, pa.Array]:
    """Return the columns that hold fields of the records whole, and add the records that have none to the faults."""
    found: list[Mapping[str, str | None]] = []
    for place, record in enumerate(records):
        try:
            found.append({} if place in faults else whole.of(record))
        except WholeFaultError as error:
            faults[place] = str(error)
            found.append({})
    return {name: pa.array([one.get(name) for one in found], pa.string()) for name in whole.columns}
