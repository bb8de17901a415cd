"""Say fields of messages as JSON: for columns that hold any value whole, and for fields that no column takes.

It is the JSON of Protobuf, with these differences, which are those of columns: fields have the names of the schema, whole numbers of 64 bits are
numbers, and NaN is a fault. Fields that are not there, or that the schema cannot tell from such, are left out within messages.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
import orjson
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from tideline.domain.columns import WHOLE, SimpleType
from tideline.formats.protobuf.decoding import NO_MESSAGE
from tideline.formats.protobuf.schema import MOMENT, WRAPPERS
from tideline.formats.ranges import NO_SUCH_MOMENT, NOT_FINITE, NUL_IN_TEXT
from tideline.formats.reader import Reader
from tideline.formats.undeclared import cleaned


class WholeFaultError(ValueError):
    """A value has no form in JSON, or in `jsonb`. The message says which field, and why."""


def whole_columns(reader: Reader) -> list[str]:
    """Return the columns that hold values whole, the one for fields that no other takes behind the others."""
    found = [name for name, kind in reader.columns.items() if kind == SimpleType(WHOLE)]
    return found if reader.rest is None else [*found, reader.rest]


class WholeFields:
    """Says the fields of one message that columns hold whole.

    Args:
        message: The message.
        reader: What is wanted of the records; at least one column holds values whole.
        names: The columns of fields that have other names.
    """

    def __init__(self, message: Descriptor, reader: Reader, names: Mapping[str, str]) -> None:
        self._parse = message_factory.GetMessageClass(message).FromString
        by_column = {names.get(field.name, field.name): field for field in message.fields}
        self._whole = {name: by_column[name] for name in whole_columns(reader) if name in by_column}
        self._rest = reader.rest
        self.columns = [*self._whole, *([] if reader.rest is None else [reader.rest])]
        """The columns that the fields of this message fill."""
        taken = {field.number for name, field in by_column.items() if name in reader.columns}
        self._beside = [field for field in message.fields if field.number not in taken]

    def of(self, record: bytes) -> dict[str, str | None]:
        """Return the text of each column whose field the message has; None for null.

        Raises:
            WholeFaultError: The bytes are no message of its schema, or a value has no form in JSON.
        """
        try:
            message = self._parse(record)
        except DecodeError:
            raise WholeFaultError(NO_MESSAGE) from None
        found = {name: _text(_field(message, field, name)) for name, field in self._whole.items()}
        if self._rest is not None:
            others = _members(message, self._beside)
            found[self._rest] = _text(others) if others else None
        return found


def _text(value: Any) -> str | None:
    return None if value is None else orjson.dumps(value).decode()


def _field(message: Message, field: FieldDescriptor, path: str) -> Any:
    """Return a field as it is for a column: one that is not there is null only if the schema tells this."""
    if field.has_presence and not message.HasField(field.name):
        return None
    return _said(getattr(message, field.name), field, path)


def _members(message: Message, fields: Iterable[FieldDescriptor], path: str = "") -> dict[str, Any]:
    """Return those of the fields that are there, by their names."""
    there = {field.number: value for field, value in message.ListFields()}
    return {
        field.name: _said(there[field.number], field, f"{path}{cleaned(field.name)}")
        for field in fields
        if field.number in there
    }


def _said(value: Any, field: FieldDescriptor, path: str) -> Any:
    """Return the value of a field as JSON has it."""
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        of_value = inner.fields_by_name["value"]
        entries = {_key(key, path): _one(one, of_value, f"{path}[]") for key, one in value.items()}
        return dict(sorted(entries.items()))  # a map has no order, and the same bytes must give the same text
    if field.is_repeated:
        return [_one(one, field, f"{path}[]") for one in value]
    return _one(value, field, path)


def _key(key: Any, path: str) -> str:
    return str(key).lower() if isinstance(key, bool) else _checked(str(key), path)


def _one(value: Any, field: FieldDescriptor, path: str) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_MESSAGE | FieldDescriptor.TYPE_GROUP:
            return _message(value, path)
        case FieldDescriptor.TYPE_STRING:
            return _checked(value, path)
        case FieldDescriptor.TYPE_BYTES:
            return base64.b64encode(value).decode()
        case FieldDescriptor.TYPE_ENUM:
            named = field.enum_type.values_by_number.get(value)
            return value if named is None else named.name
        case FieldDescriptor.TYPE_FLOAT | FieldDescriptor.TYPE_DOUBLE:
            return _finite(value, path, is_float=field.type == FieldDescriptor.TYPE_FLOAT)
        case _:
            return value


def _message(value: Any, path: str) -> Any:
    name = value.DESCRIPTOR.full_name
    if name in WRAPPERS:
        return _one(value.value, value.DESCRIPTOR.fields_by_name["value"], path)
    if name in _MEANINGS:
        return _MEANINGS[name](value, path)
    return _members(value, value.DESCRIPTOR.fields, f"{path}.")


def _as_google_says(reason: str, value: Any, path: str) -> str:
    """Return a time as Google's library writes it in JSON. If it refuses, there is this reason for it."""
    try:
        return str(value.ToJsonString())
    except ValueError:
        raise WholeFaultError(f"{path}: {reason}") from None


def _object(value: Any, path: str) -> dict[str, Any]:
    return {_checked(key, path): _any(one, f"{path}.{cleaned(key)}") for key, one in sorted(value.fields.items())}


def _items(value: Any, path: str) -> list[Any]:
    return [_any(one, f"{path}[]") for one in value.values]


def _any(value: Any, path: str) -> Any:
    kind = value.WhichOneof("kind")
    if kind in (None, "null_value"):
        return None
    return _one(getattr(value, kind), value.DESCRIPTOR.fields_by_name[kind], path)


_MEANINGS: Mapping[str, Callable[[Any, str], Any]] = {
    MOMENT: partial(_as_google_says, NO_SUCH_MOMENT),
    "google.protobuf.Duration": partial(_as_google_says, "no duration of at most 10,000 years"),
    "google.protobuf.Struct": _object,
    "google.protobuf.ListValue": _items,
    "google.protobuf.Value": _any,
}
"""Messages of Google's that have a form of their own in JSON."""


def _checked(text: str, path: str) -> str:
    if "\0" in text:
        raise WholeFaultError(f"{path}: {NUL_IN_TEXT}")
    return text


def _finite(number: float, path: str, *, is_float: bool) -> float:
    if not isfinite(number):
        raise WholeFaultError(f"{path}: {NOT_FINITE}")
    return float(str(np.float32(number))) if is_float else number  # else 0.1 would be 0.10000000149011612
