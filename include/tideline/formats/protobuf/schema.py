"""Narrow a message to what the declared columns take of it.

A record is decoded by the narrowed message: its other fields are read over by the rules of the wire, whatever they hold. So no schema
makes the decoder go deeper than the columns are, also one that contains itself; and writers whose schemas differ in other fields are
read as one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tideline.domain.columns import ArrayType, ColumnType, DecimalType, SimpleType, StructType

MOMENT = "google.protobuf.Timestamp"
WRAPPERS = {
    *(f"google.protobuf.{name}Value" for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool")),
    "google.protobuf.StringValue",
    "google.type.Decimal",
}
"""Messages with one field, `value`, which stand for a value that may be absent."""
WHOLE_NUMBERS = (
    *(FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64),
    *(FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SINT64),
    *(FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_FIXED64),
    *(FieldDescriptor.TYPE_SFIXED32, FieldDescriptor.TYPE_SFIXED64),
)
_NUMBERS = ("smallint", "int", "bigint", "float", "double")
_NAMES = {
    getattr(FieldDescriptor, name): name.removeprefix("TYPE_").lower()
    for name in dir(FieldDescriptor)
    if name.startswith("TYPE_")
}
KEY, VALUE = 1, 2
"""The numbers of the fields of an entry of a map."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts."""

    type: int
    """One of `FieldDescriptor.TYPE_*`."""
    symbols: tuple[tuple[int, str], ...] = ()
    """Of an enum: its numbers with their names."""


@dataclass(frozen=True, slots=True)
class NarrowedMessage:
    """The fields that columns take of a message, and those that belong to one `oneof` with them."""

    name: str
    """Its full name, for a type with a meaning of its own; else empty, so that equal fields make equal messages."""
    fields: tuple["Field", ...]
    is_entry: bool = False
    """Whether it is an entry of a map."""


Node = Scalar | NarrowedMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a message."""

    name: str
    """That of the column or of the field of a struct that takes it; empty if none does."""
    number: int
    node: Node
    is_repeated: bool = False
    has_presence: bool = False
    """Whether a record says if the value is there."""
    choice: str = ""
    """The `oneof` of which at most one field is there."""


class FieldMisfitError(ValueError):
    """The fields of a message do not fill the columns. The message says which field."""


def narrowed(message: Descriptor, kinds: Mapping[str, ColumnType], names: Mapping[str, str]) -> NarrowedMessage:
    """Return the fields of a message that these columns take.

    Args:
        message: The message of the writer.
        kinds: The columns and their types.
        names: The columns of fields that have other names.

    Raises:
        FieldMisfitError: A field is of a type that does not fill its column.
    """
    columns = {field.number: names.get(field.name, field.name) for field in message.fields}
    fields = [
        _field(one, columns[one.number], kinds[columns[one.number]])
        for one in message.fields
        if columns[one.number] in kinds
    ]
    taken = {one.number for one in fields}
    choices = {one.choice for one in fields if one.choice}
    for choice in message.oneofs:
        if choice.name in choices:  # the last of its fields that a record has counts: so all of them are read
            fields += [_unread(one, choice.name) for one in choice.fields if one.number not in taken]
    return NarrowedMessage("", tuple(sorted(fields, key=lambda one: one.number)))


def undeclared(
    message: Descriptor, kinds: Mapping[str, ColumnType], names: Mapping[str, str], path: str = ""
) -> Iterator[str]:
    """Yield the fields of a message that no column takes; in structs by their paths."""
    for field in message.fields:
        if (column := names.get(field.name, field.name)) not in kinds:
            yield f"{path}{field.name}"
            continue
        kind = kinds[column]
        below = f"{path}{column}{'[]' if field.is_repeated else ''}."
        kind = kind.element if field.is_repeated and isinstance(kind, ArrayType) else kind
        if field.message_type is not None and isinstance(kind, StructType):
            yield from undeclared(field.message_type, dict(kind.fields), {}, below)


def _field(field: FieldDescriptor, column: str, kind: ColumnType) -> Field:
    if field.is_repeated and not isinstance(kind, ArrayType):
        raise FieldMisfitError(f"{column}: expected {kind}, the schema has {shown(field)}")
    element = kind.element if field.is_repeated and isinstance(kind, ArrayType) else kind
    oneof = field.containing_oneof
    return Field(
        name=column,
        number=field.number,
        node=_node(field, column, element),
        is_repeated=field.is_repeated,
        has_presence=field.has_presence,
        choice=oneof.name if oneof is not None and len(oneof.fields) > 1 else "",
    )


def _unread(field: FieldDescriptor, choice: str) -> Field:
    plain = field.type not in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP, FieldDescriptor.TYPE_STRING)
    kind = FieldDescriptor.TYPE_INT32 if field.type == FieldDescriptor.TYPE_ENUM else field.type
    return Field(
        name="",
        number=field.number,
        node=Scalar(kind if plain else FieldDescriptor.TYPE_BYTES),
        has_presence=True,
        choice=choice,
    )


def _node(field: FieldDescriptor, column: str, kind: ColumnType) -> Node:
    inner = field.message_type
    if inner is None:
        if not _fills(field, kind):
            raise FieldMisfitError(f"{column}: expected {kind}, the schema has {shown(field)}")
        enum = field.enum_type
        return Scalar(field.type, () if enum is None else tuple((one.number, one.name) for one in enum.values))
    if field.type == FieldDescriptor.TYPE_GROUP:
        raise FieldMisfitError(f"{column}: the schema has a group, which cannot be read")
    if isinstance(kind, StructType):
        return _struct(inner, column, kind)
    if inner.full_name == MOMENT and kind == SimpleType("timestamp"):
        parts = {"seconds": SimpleType("bigint"), "nanos": SimpleType("int")}
        return replace(narrowed(inner, parts, {}), name=MOMENT)
    if inner.full_name in WRAPPERS and _fills(inner.fields_by_name["value"], kind):
        return replace(narrowed(inner, {"value": kind}, {}), name=inner.full_name)
    raise FieldMisfitError(f"{column}: expected {kind}, the schema has {shown(field)}")


def _struct(message: Descriptor, column: str, kind: StructType) -> NarrowedMessage:
    try:
        found = narrowed(message, dict(kind.fields), {})
    except FieldMisfitError as error:
        raise FieldMisfitError(f"{column}.{error}") from error
    if not message.GetOptions().map_entry:
        return found
    missing = [_unread(one, "") for one in message.fields if one.number not in {field.number for field in found.fields}]
    if any(one.number == KEY for one in missing):
        raise FieldMisfitError(
            f"{column}: expected a struct with the key of the map, which is called key, found {kind}"
        )
    return NarrowedMessage("", (*found.fields, *(replace(one, has_presence=False) for one in missing)), is_entry=True)


def _fills(field: FieldDescriptor, kind: ColumnType) -> bool:
    text = bool(field.type == FieldDescriptor.TYPE_STRING)
    match kind:
        case DecimalType():
            return field.type in WHOLE_NUMBERS or text
        case SimpleType(name="string"):
            return text or bool(field.type == FieldDescriptor.TYPE_ENUM)
        case SimpleType(name="boolean"):
            return bool(field.type == FieldDescriptor.TYPE_BOOL)
        case SimpleType(name="double" | "float" as name) if field.type not in WHOLE_NUMBERS:
            fitting = {FieldDescriptor.TYPE_FLOAT} | ({FieldDescriptor.TYPE_DOUBLE} if name == "double" else set())
            return field.type in fitting
        case SimpleType(name=name):
            return field.type in WHOLE_NUMBERS and name in _NUMBERS
        case _:
            return False


def shown(field: FieldDescriptor) -> str:
    """Return the type of a field, for people."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map<{shown(key)}, {shown(value)}>"
    named = field.message_type or field.enum_type
    plain = f"{'message' if field.message_type else 'enum'} {named.full_name}" if named else _NAMES[field.type]
    return f"repeated {plain}" if field.is_repeated else plain
