"""Encode Arrow columns as Protobuf messages, by Google's library, which judges each value.

Law: a value is written exactly or its record is refused. A field that tells no absence, as those of proto3 without `optional`,
takes no null: readers would find a zero or an empty text in its place.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as at
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError, Message

from tideline.domain.schemas import Schema
from tideline.formats.arrow_types import entries, is_bytes, is_text
from tideline.formats.encoder import UnencodableError
from tideline.formats.protobuf.compiling import Messages, ProtobufSchemaError, compiled
from tideline.formats.protobuf.schema import KEY, MOMENT, VALUE, WHOLE_NUMBERS, WRAPPERS, shown
from tideline.formats.ranges import FIRST_US, LAST_US, NO_SUCH_MOMENT
from tideline.formats.varints import varints

_DECIMAL = "google.type.Decimal"
_MICROS = 1_000_000
_FILLED_BY: Mapping[int, Sequence[Callable[[pa.DataType], bool]]] = {
    **{one: [at.is_integer] for one in WHOLE_NUMBERS},
    FieldDescriptor.TYPE_BOOL: [at.is_boolean],
    FieldDescriptor.TYPE_FLOAT: [at.is_float16, at.is_float32],
    FieldDescriptor.TYPE_DOUBLE: [at.is_floating],
    FieldDescriptor.TYPE_STRING: [is_text],
    FieldDescriptor.TYPE_ENUM: [is_text],
    FieldDescriptor.TYPE_BYTES: [is_bytes],
}
"""Which Arrow types fill a field, by its type."""


@dataclass(frozen=True, slots=True)
class ProtobufRecords:
    """Writes messages of one schema."""

    files: bytes
    """The schema as `compiled` returns it."""
    name: str
    """The full name of the message."""
    head: bytes
    """What stands before each record."""

    @property
    def fields(self) -> Collection[str]:
        """See `Encoder.fields`."""
        return [*_message_class(self.files, self.name).DESCRIPTOR.fields_by_name]

    def problems(self, columns: Mapping[str, pa.DataType]) -> list[str]:
        """See `Encoder.problems`."""
        return [*_problems(_message_class(self.files, self.name).DESCRIPTOR, columns)]

    def encoded(self, columns: Mapping[str, pa.Array], length: int) -> pa.BinaryArray:
        """See `Encoder.encoded`."""
        make = _message_class(self.files, self.name)
        rows = _rows(make.DESCRIPTOR, columns, length)
        try:
            found = [self.head + make(**row).SerializeToString(deterministic=True) for row in rows]
        except (TypeError, ValueError, EncodeError) as error:
            raise UnencodableError(f"no message {self.name}: {error}") from error
        return pa.array(found, pa.binary())


def encoder(schema: Schema, message: str | None, head: bytes) -> ProtobufRecords:
    """See `tideline.formats.kinds.encoder`."""
    files, name = compiled(schema.text, schema.references), message or ""
    indexes = Messages(files).indexes(name)
    if indexes is None:
        raise ProtobufSchemaError(f"expected message {name} in the schema itself, found it in an import")
    return ProtobufRecords(files, name, head + _indexes_head(indexes))


def _problems(message: Descriptor, columns: Mapping[str, pa.DataType], path: str = "") -> Iterator[str]:
    fields = message.fields_by_name
    for name, kind in columns.items():
        if name not in fields:
            yield f"{path}{name}: message {message.full_name} has no such field"
        else:
            yield from _misfits(fields[name], kind, f"{path}{name}")
    for field in message.fields:
        if field.is_required and field.name not in columns:
            yield f"{path}{field.name}: missing, and message {message.full_name} requires it"


def _misfits(field: FieldDescriptor, kind: pa.DataType, path: str) -> Iterator[str]:
    lists = at.is_list(kind) or at.is_large_list(kind) or at.is_fixed_size_list(kind)
    if _is_map(field) and at.is_map(kind):
        yield from _misfits_one(field.message_type.fields_by_number[KEY], kind.key_type, f"{path}{{}}")
        yield from _misfits_one(field.message_type.fields_by_number[VALUE], kind.item_type, f"{path}{{}}")
    elif field.is_repeated and not _is_map(field) and lists:
        yield from _misfits_one(field, kind.value_type, f"{path}[]")
    elif field.is_repeated:
        yield _misfit(field, kind, path)
    else:
        yield from _misfits_one(field, kind, path)


def _misfits_one(field: FieldDescriptor, kind: pa.DataType, path: str) -> Iterator[str]:
    """Yield why values of an Arrow type are no values of a field, as if it were there once."""
    message = field.message_type
    if message is not None and message.full_name not in (MOMENT, *WRAPPERS) and at.is_struct(kind):
        yield from _problems(message, {one.name: one.type for one in kind}, f"{path}.")
    elif not _takes(field, kind):
        yield _misfit(field, kind, path)


def _misfit(field: FieldDescriptor, kind: pa.DataType, path: str) -> str:
    return f"{path}: the schema has {shown(field)}, which Arrow type {kind} does not fill"


def _takes(field: FieldDescriptor, kind: pa.DataType) -> bool:
    """Return whether values of an Arrow type without parts may be values of a field."""
    message = field.message_type
    if message is None:
        return any(fills(kind) for fills in _FILLED_BY.get(field.type, ()))
    if message.full_name == MOMENT:
        return bool(at.is_timestamp(kind) and kind.tz is not None)
    if message.full_name == _DECIMAL:
        return bool(at.is_decimal(kind))
    return message.full_name in WRAPPERS and _takes(message.fields_by_name["value"], kind)


def _rows(message: Descriptor, columns: Mapping[str, pa.Array], length: int) -> list[dict[str, Any]]:
    """Return the values of each message by field. A null is left out."""
    rows: list[dict[str, Any]] = [{} for _ in range(length)]
    choices: dict[str, np.ndarray[Any, Any]] = {}
    for name, column in columns.items():
        field = message.fields_by_name[name]
        if column.null_count and (field.is_repeated or field.is_required or not field.has_presence):
            raise UnencodableError(f"column {name}: expected a value, because the field tells no absence, found null")
        if field.containing_oneof is not None:
            choice = field.containing_oneof.name
            there = choices.get(choice, 0) + np.asarray(column.is_valid()).astype(np.int64)
            if (there > 1).any():
                raise UnencodableError(f"column {name}: expected one value for the oneof {choice}, found several")
            choices[choice] = there
        try:
            values = _values(field, column)
        except (UnencodableError, pa.ArrowInvalid) as error:
            raise UnencodableError(f"column {name}: {error}") from error
        for row, value in zip(rows, values, strict=True):
            if value is not None:
                row[name] = value
    return rows


def _values(field: FieldDescriptor, column: pa.Array) -> list[Any]:
    """Return the values of a field as its message class takes them; None for a null."""
    if _is_map(field):
        keys, items = entries(column)
        members = [*zip(keys.to_pylist(), _present(field.message_type.fields_by_number[VALUE], items), strict=True)]
        return [dict(part) for part in _parts(column, members)]
    if field.is_repeated:
        listed = column if at.is_list(column.type) else column.cast(pa.list_(column.type.value_type))
        return _parts(listed, _present(field, listed.flatten()))
    return _each(field, column)


def _present(field: FieldDescriptor, members: pa.Array) -> list[Any]:
    if members.null_count:
        raise UnencodableError("expected values only, found null among them")
    return _each(field, members)


def _parts(lists: pa.Array, members: list[Any]) -> list[list[Any]]:
    """Return the members of each list, none of which is null."""
    offsets = np.asarray(lists.offsets)
    ends = (offsets - offsets[0]).tolist()
    return [members[start:end] for start, end in pairwise(ends)]


def _each(field: FieldDescriptor, column: pa.Array) -> list[Any]:
    """Return values of a field as if it were there once."""
    message = field.message_type
    if message is None:
        return [*column.to_pylist()]
    if message.full_name == MOMENT:
        return [None if one is None else _moment(one) for one in _microseconds(column)]
    if message.full_name == _DECIMAL:
        return [None if one is None else {"value": str(one)} for one in column.to_pylist()]
    if message.full_name in WRAPPERS:
        return [None if one is None else {"value": one} for one in column.to_pylist()]
    there = column.drop_null()
    fields = {there.type.field(number).name: one for number, one in enumerate(there.flatten())}
    found = iter(_rows(message, fields, len(there)))
    return [next(found) if is_valid else None for is_valid in column.is_valid().to_pylist()]


def _microseconds(column: pa.Array) -> list[int | None]:
    found: list[int | None] = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    if any(one is not None and not FIRST_US <= one <= LAST_US for one in found):
        raise UnencodableError(NO_SUCH_MOMENT)
    return found


def _moment(microseconds: int) -> dict[str, int]:
    seconds, rest = divmod(microseconds, _MICROS)
    return {"seconds": seconds, "nanos": rest * 1_000}


def _is_map(field: FieldDescriptor) -> bool:
    message = field.message_type
    return bool(field.is_repeated and message is not None and message.GetOptions().map_entry)


def _indexes_head(indexes: Sequence[int]) -> bytes:
    """Return how a frame says which message of the schema follows: a zero for the first, else the number of indexes and each of them."""
    if [*indexes] == [0]:
        return b"\0"
    return b"".join(varints(np.array([len(indexes), *indexes])).to_pylist())


@lru_cache(maxsize=100)
def _message_class(files: bytes, name: str) -> type[Message]:
    found: type[Message] = message_factory.GetMessageClass(Messages(files).named(name))
    return found
