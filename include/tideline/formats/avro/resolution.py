"""Say which column a writer's type can fill, and what a record of it must hold so that it does.

Promotions are those of Avro: int to long, float and double; long to float and double; float to double; an enum is text. Beyond
them, a whole number fills a narrower column and a decimal one where it fits without loss, and a value that does not is a reject.
"""

from collections.abc import Iterator, Mapping

from tideline.domain.columns import WHOLE, ArrayType, ColumnType, DecimalType, SimpleType, StructType
from tideline.formats.avro.schema import (
    ISO_TIMESTAMP,
    Entries,
    EnumType,
    Fixed,
    Items,
    Node,
    Primitive,
    RecordType,
    Union,
)
from tideline.formats.ranges import INTEGERS
from tideline.formats.reader import Reader

UNITS = {"timestamp-millis": 1_000, "timestamp-micros": 1}
"""Microseconds of one unit. Local ones name no moment."""
WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}
"""The bytes of primitive types that always take as many."""
_INTO = {
    "boolean": {"boolean"},
    "int": {*INTEGERS, "float", "double"},
    "long": {*INTEGERS, "float", "double"},
    "float": {"float", "double"},
    "double": {"double"},
    "string": {"string"},
}


def renamed(writer: RecordType, reader: Reader) -> RecordType:
    """Return the schema of a writer with the columns' names for its fields."""
    names = reader.named(name for name, _ in writer.fields)
    return RecordType(writer.name, tuple((names.get(name, name), node) for name, node in writer.fields))


def undeclared(schema: RecordType, kinds: Mapping[str, ColumnType], path: str = "") -> Iterator[str]:
    """Yield the fields of a schema, in the names of the columns, that no column takes; in structs by their paths."""
    for name, node in schema.fields:
        if name not in kinds:
            yield f"{path}{name}"
        else:
            yield from _undeclared(node, kinds[name], f"{path}{name}")


def _undeclared(node: Node, kind: ColumnType, path: str) -> Iterator[str]:
    match node, kind:
        case Union(branches=branches), _:
            for branch in branches:
                yield from _undeclared(branch, kind, path)
        case Items(items=items), ArrayType(element=element):
            yield from _undeclared(items, element, f"{path}[]")
        case RecordType(), StructType(fields=fields):
            yield from undeclared(node, dict(fields), f"{path}.")
        case _:
            return


def misfit(writer: Node, kind: ColumnType) -> str | None:
    """Return why no value of a writer's type fills a column of this type; None if one does.

    Of a union at least one branch must. A record that holds another one is a reject. A column of the type `json` holds any value.
    """
    match writer:
        case _ if _is_filled(writer, kind):
            return None
        case Union(branches=branches):
            others = [one for one in branches if one != Primitive("null")]
            reasons = [misfit(one, kind) for one in others]
            if not reasons or None in reasons:
                return None
            has_parts = len(others) == 1 and isinstance(others[0], RecordType | Items)
            return reasons[0] if has_parts else f"expected {kind}, the schema has {writer}"
        case RecordType() if isinstance(kind, StructType):
            return _fields(dict(writer.fields), dict(kind.fields))
        case Items(items=items) if isinstance(kind, ArrayType):
            inner = misfit(items, kind.element)
            return f"[]: {inner}" if inner else None
        case _:
            return f"expected {kind}, the schema has {writer}"


def _fields(writer: Mapping[str, Node], kinds: Mapping[str, ColumnType]) -> str | None:
    for name, kind in kinds.items():
        if name in writer and (inner := misfit(writer[name], kind)):
            return f"{name}{'' if inner.startswith('[]') else ': '}{inner}"
    return None


def _is_filled(writer: Node, kind: ColumnType) -> bool:
    """Return whether a column holds any value, or a type without parts fills it."""
    return kind == SimpleType(WHOLE) or (isinstance(writer, Primitive | Fixed | EnumType) and _fills(writer, kind))


def _fills(writer: Primitive | Fixed | EnumType, kind: ColumnType) -> bool:
    match kind:
        case DecimalType():
            whole = isinstance(writer, Primitive) and writer.kind in ("int", "long") and not writer.logical
            return whole or (not isinstance(writer, EnumType) and writer.logical == "decimal")
        case SimpleType(name="timestamp"):
            return isinstance(writer, Primitive) and writer.logical in {*UNITS, ISO_TIMESTAMP}
        case SimpleType(name="date"):
            return isinstance(writer, Primitive) and writer.logical == "date"
        case SimpleType(name=name):
            if isinstance(writer, EnumType):
                return name == "string"
            return isinstance(writer, Primitive) and name in _INTO.get(writer.kind, ())
        case _:
            return False


def least_bytes(node: Node) -> int:
    """Return how many bytes a value takes at least. What takes none can be there any number of times, for nothing."""
    match node:
        case Primitive(kind=kind):
            return WIDTHS.get(kind, 1)
        case Fixed(size=size):
            return size
        case RecordType(fields=fields):
            return sum(least_bytes(inner) for _, inner in fields)
        case _:
            return 1


def unreadable(node: Node) -> str | None:
    """Return what in a schema cannot be read, whatever the columns are; None if nothing."""
    match node:
        case Items(items=items) if not least_bytes(items):
            return "an array of items without bytes"  # a few bytes could claim any number of them
        case Items(items=inner) | Entries(values=inner):
            return unreadable(inner)
        case RecordType(fields=fields):
            return next((found for _, inner in fields if (found := unreadable(inner))), None)
        case Union(branches=branches):
            return next((found for inner in branches if (found := unreadable(inner))), None)
        case _:
            return None
