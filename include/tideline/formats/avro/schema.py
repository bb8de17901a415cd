"""Parse Avro schemas into nodes. Names are resolved, and a schema that contains itself is refused by name.

Source of the rules: the specification of Avro 1.12. A recursive schema has no columns of fixed depth, and a decoder that
follows one goes as deep as hostile bytes tell it to.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class SchemaError(ValueError):
    """The text is no Avro schema that can be read. The message says where."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts. `logical` is the name of its logical type, or empty."""

    kind: str
    logical: str = ""
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return _named(self.kind, self.logical)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A certain number of bytes."""

    name: str
    size: int
    logical: str = ""
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return _named(f"fixed {self.name}", self.logical)


@dataclass(frozen=True, slots=True)
class EnumType:
    """One of some words, written as its number."""

    name: str
    symbols: tuple[str, ...]

    def __str__(self) -> str:
        return f"enum {self.name}"


@dataclass(frozen=True, slots=True)
class Items:
    """An array of items of one type."""

    items: "Node"

    def __str__(self) -> str:
        return f"array of {self.items}"


@dataclass(frozen=True, slots=True)
class Entries:
    """A map from text to values of one type."""

    values: "Node"

    def __str__(self) -> str:
        return f"map of {self.values}"


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types, written behind its number."""

    branches: tuple["Node", ...]

    def __str__(self) -> str:
        return f"union of {', '.join(map(str, self.branches))}"


@dataclass(frozen=True, slots=True)
class RecordType:
    """Fields, one after the other."""

    name: str
    fields: tuple[tuple[str, "Node"], ...]
    defaults: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What the schema gives in JSON for fields, by their names. Records hold every field, so only who writes one needs it."""

    def __str__(self) -> str:
        return f"record {self.name}"


Node = Primitive | Fixed | EnumType | Items | Entries | Union | RecordType


def record_of(node: Node | None) -> RecordType | None:
    """Return the record that a value of this type is, or may be; None if it is none."""
    branches = node.branches if isinstance(node, Union) else (node,)
    return next((one for one in branches if isinstance(one, RecordType)), None)


def _named(kind: str, logical: str) -> str:
    return f"{kind} ({logical})" if logical else kind


def parsed(text: str, reference_texts: Sequence[str] = ()) -> RecordType:
    """Return the schema of a record.

    Args:
        text: The schema.
        reference_texts: Schemas whose types it names, each behind those that it names itself.

    Raises:
        SchemaError: It is not JSON, no Avro schema, no record, or contains itself.
    """
    try:
        parser = _Parser()
        for reference in dict.fromkeys(reference_texts):  # a registry may know one by several names
            parser.node(json.loads(reference), "", "a schema that it refers to")
        node = parser.node(json.loads(text), "", "the schema")
    except RecursionError:
        raise SchemaError("the schema is nested too deep") from None
    except SchemaError:
        raise
    except ValueError as error:
        raise SchemaError(f"expected an Avro schema in JSON: {error}") from error
    if not isinstance(node, RecordType):
        raise SchemaError(f"expected a record, found {node}")
    return node


class _Parser:
    """Resolves the names of one schema. Named types may be used by their names behind their definition."""

    def __init__(self) -> None:
        self._known: dict[str, Node] = {}
        self._open: list[str] = []

    def node(self, given: Any, namespace: str, where: str) -> Node:
        match given:
            case str():
                return self._by_name(given, namespace, where)
            case list():
                return self._union(given, namespace, where)
            case dict():
                return self._object(given, namespace, where)
            case _:
                raise SchemaError(f"{where}: expected a type, found {given!r}")

    def _by_name(self, name: str, namespace: str, where: str) -> Node:
        if name in PRIMITIVES:
            return Primitive(name)
        full = _full(name, namespace)
        if full in self._open:
            raise SchemaError(f"{where}: record {full} contains itself; recursive schemas cannot be read")
        if full not in self._known:
            raise SchemaError(f"{where}: unknown type {name!r}")
        return self._known[full]

    def _union(self, given: list[Any], namespace: str, where: str) -> Union:
        branches = tuple(self.node(one, namespace, where) for one in given)
        if not branches or any(isinstance(one, Union) for one in branches):
            raise SchemaError(f"{where}: expected a union of at least one type, and of no other union")
        return Union(branches)

    def _object(self, given: Mapping[str, Any], namespace: str, where: str) -> Node:
        kind = given.get("type")
        match kind:
            case "array":
                return Items(self.node(_part(given, "items", where), namespace, f"{where}[]"))
            case "map":
                return Entries(self.node(_part(given, "values", where), namespace, f"{where}{{}}"))
            case "record" | "error" | "enum" | "fixed":
                define = {"enum": self._enum, "fixed": self._fixed}.get(kind, self._record)
                return define(given, namespace, where)
            case str() if kind in PRIMITIVES:
                return Primitive(kind, *_logical(given))
            case None:
                raise SchemaError(f"{where}: expected a type, found {dict(given)!r}")
            case _:
                return self.node(kind, namespace, where)

    def _enum(self, given: Mapping[str, Any], namespace: str, where: str) -> Node:
        name, symbols = _full(given.get("name"), given.get("namespace", namespace)), _part(given, "symbols", where)
        if not isinstance(symbols, list) or not symbols or not all(isinstance(one, str) for one in symbols):
            raise SchemaError(f"{where}: expected symbols of enum {name}, found {symbols!r}")
        return self._define(name, EnumType(name, tuple(symbols)), where)

    def _fixed(self, given: Mapping[str, Any], namespace: str, where: str) -> Node:
        name, size = _full(given.get("name"), given.get("namespace", namespace)), given.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise SchemaError(f"{where}: expected the size of fixed {name}, found {size!r}")
        return self._define(name, Fixed(name, size, *_logical(given)), where)

    def _record(self, given: Mapping[str, Any], namespace: str, where: str) -> Node:
        full = _full(given.get("name"), given.get("namespace", namespace))
        within = full.rpartition(".")[0]
        self._open.append(full)
        fields: dict[str, Node] = {}
        defaults: dict[str, Any] = {}
        listed = _part(given, "fields", where)
        if not isinstance(listed, list):
            raise SchemaError(f"{where}: expected a list of fields of record {full}")
        for one in listed:
            if not isinstance(one, dict) or not isinstance(one.get("name"), str) or "type" not in one:
                raise SchemaError(f"record {full}: expected fields with a name and a type, found {one!r}")
            if one["name"] in fields:
                raise SchemaError(f"record {full}: field {one['name']} is there twice")
            fields[one["name"]] = self.node(one["type"], within, f"field {one['name']} of record {full}")
            if "default" in one:
                defaults[one["name"]] = one["default"]
        self._open.pop()
        return self._define(full, RecordType(full, tuple(fields.items()), defaults), where)

    def _define(self, name: str, node: Node, where: str) -> Node:
        if name in self._known:
            raise SchemaError(f"{where}: {name} is defined twice")
        self._known[name] = node
        return node


def _full(name: Any, namespace: Any) -> str:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"expected the name of a type, found {name!r}")
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _part(given: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in given:
        raise SchemaError(f"{where}: expected {key} in {dict(given)!r}")
    return given[key]


ISO_TIMESTAMP = "iso-timestamp"
"""The logical type of a text that is a timestamp with a zone."""
DOCUMENT = "json-document"
"""The logical type of a text that is JSON."""
_OF_CONNECT = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "timestamp-millis",
    "io.debezium.time.MicroTimestamp": "timestamp-micros",
    "io.debezium.time.NanoTimestamp": "timestamp-nanos",
    "io.debezium.time.MicroTime": "time-micros",
    "io.debezium.time.Time": "time-millis",
    "io.debezium.time.ZonedTimestamp": ISO_TIMESTAMP,
    "io.debezium.data.Json": DOCUMENT,
}
"""What the names of Kafka Connect's schemas mean where the converter gives no logical type."""


def _logical(given: Mapping[str, Any]) -> tuple[str, int, int]:
    """Return the logical type. One that does not fit its type is none, as the specification demands."""
    name, kind = given.get("logicalType") or _OF_CONNECT.get(str(given.get("connect.name")), ""), given.get("type")
    if name == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = given.get("precision"), given.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0:
            return name, precision, scale
        return "", 0, 0
    fits = {
        "int": ("date", "time-millis"),
        "long": (
            "time-micros",
            *(f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")),
        ),
        "string": ("uuid", ISO_TIMESTAMP, DOCUMENT),
        "fixed": ("duration", "uuid"),
    }
    return (name, 0, 0) if name in fits.get(str(kind), ()) else ("", 0, 0)
