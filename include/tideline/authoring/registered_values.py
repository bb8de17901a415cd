"""Describe values by the schemas that they name in a registry: which fields become columns, of which types. Pure functions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple

import pyarrow as pa

from tideline.authoring.doubts import Doubt, left_out
from tideline.domain.columns import MAX_PRECISION, WHOLE, ArrayType, ColumnType, DecimalType, SimpleType, StructType
from tideline.domain.schemas import Part, Schema, Schemas
from tideline.formats import kinds
from tideline.formats.avro.resolution import UNITS
from tideline.formats.avro.schema import (
    DOCUMENT,
    ISO_TIMESTAMP,
    Entries,
    EnumType,
    Fixed,
    Items,
    Node,
    Primitive,
    RecordType,
    SchemaError,
    Union,
    parsed,
)
from tideline.formats.confluent_frame import Unframed, unframed
from tideline.formats.format import RawRecords

_SAME = {"boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double", "string": "string"}

_LOGICAL = {**dict.fromkeys((*UNITS, ISO_TIMESTAMP), "timestamp"), "date": "date", DOCUMENT: WHOLE}


class RegisteredField(NamedTuple):
    """A field of a schema that becomes a column."""

    name: str
    kind: ColumnType
    is_uuid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredValues:
    """What the schemas say that values name."""

    schemas: Mapping[int, Schema]
    """Those that the registry has, by id."""
    kind: str
    """That of the schema that was registered last: AVRO, JSON or PROTOBUF; empty if no value names one."""
    fields: tuple[RegisteredField, ...]
    """The columns to declare; only for AVRO and PROTOBUF."""
    message: str | None = None
    """The message that most values are; only for PROTOBUF."""
    doubts: tuple[Doubt, ...]


def described(values: Sequence[bytes], schemas: Schemas, part: Part = "value") -> RegisteredValues:
    """Return what the schemas of values, or of keys, say. Columns are those of the schema with the highest id, which was registered last.

    Raises:
        TidelineError: As `Schemas.find`.
    """
    given = pa.array(values, pa.binary())
    records = unframed(RawRecords(part=part, keys=given, values=given))
    ids = Counter(records.schema_ids.tolist())
    found = dict(schemas.find(part, sorted(ids)))
    if not found:
        return RegisteredValues(schemas={}, kind="", fields=(), doubts=())
    last = max(found)
    doubts = []
    if len(found) > 1:
        counts = ", ".join(
            f"{schema_id} in {count:,}" for schema_id, count in sorted(ids.items()) if schema_id in found
        )
        advice = (
            "Name fields that were renamed in source.value.aliases, and values of missing ones in source.value.defaults"
        )
        doubts.append(
            Doubt("records", f"they name {len(found)} schemas: {counts}", f"the fields of schema {last}", advice)
        )
    message, fields, more = _fields(last, found[last], records)
    kind = found[last].kind
    return RegisteredValues(schemas=found, kind=kind, fields=tuple(fields), doubts=(*doubts, *more), message=message)


def _fields(schema_id: int, schema: Schema, records: Unframed) -> tuple[str | None, list[RegisteredField], list[Doubt]]:
    """Return the message that values are, the fields of a schema that can be columns, and a doubt for each that cannot."""
    match schema.kind:
        case "AVRO":
            return None, *avro_fields(schema_id, schema)
        case "PROTOBUF":
            bodies = records.bodies.filter(pa.array(records.schema_ids == schema_id)).to_pylist()
            kinds.module_of("protobuf")  # its libraries may be missing
            message, fields, doubts = import_module("tideline.authoring.protobuf_values").fields_of(
                schema_id, schema, bodies
            )
            return message, [RegisteredField(name, kind, is_uuid=False) for name, kind in fields], doubts
        case _:
            return None, [], []


def avro_fields(schema_id: int, schema: Schema) -> tuple[list[RegisteredField], list[Doubt]]:
    """Return the fields of an Avro schema that can be columns, and a doubt for each that cannot."""
    try:
        record = parsed(schema.text, [one.text for one in schema.references])
    except SchemaError as error:
        return [], [
            Doubt("records", f"schema {schema_id}: {error}", "no columns", "Leave such records to transform.py")
        ]
    return fields_of_record(record)


def fields_of_record(record: RecordType) -> tuple[list[RegisteredField], list[Doubt]]:
    """Return the fields of an Avro record that can be columns, and a doubt for each that cannot."""
    fields, doubts = [], []
    for name, node in record.fields:
        kind = _type(node)
        if kind is None:
            doubts.append(left_out(name, f"the schema has {node}", "No column type holds it yet"))
        elif name == "kafka":
            doubts.append(left_out(name, "topic, offset and headers stand under this name", "Rename it"))
        else:
            fields.append(RegisteredField(name, kind, _is_uuid(node)))
    return fields, doubts


def _is_uuid(node: Node) -> bool:
    branches = node.branches if isinstance(node, Union) else (node,)
    return any(isinstance(one, Primitive) and one.logical == "uuid" for one in branches)


def _type(node: Node) -> ColumnType | None:
    """Return the column type that holds each value of a schema's type; None if there is none."""
    match node:
        case Union(branches=branches):
            others = [one for one in branches if one != Primitive("null")]
            return _type(others[0]) if len(others) == 1 else SimpleType(WHOLE)
        case RecordType(fields=fields):
            parts = tuple((name, kind) for name, inner in fields if (kind := _type(inner)) is not None)
            if SimpleType(WHOLE) in dict(parts).values():  # which is the type of a whole column only
                return SimpleType(WHOLE)
            return StructType(fields=parts) if parts else None
        case Items(items=items):
            element = _type(items)
            return element if element in (None, SimpleType(WHOLE)) else ArrayType(element=element)
        case Entries():
            return SimpleType(WHOLE)
        case _:
            return _plain(node)


def _plain(node: Primitive | Fixed | EnumType) -> ColumnType | None:
    if isinstance(node, EnumType):
        return SimpleType("string")
    if node.logical == "decimal":
        return DecimalType(precision=node.precision, scale=node.scale) if node.precision <= MAX_PRECISION else None
    if isinstance(node, Fixed):
        return None
    name = _LOGICAL.get(node.logical) or _SAME.get(node.kind)
    return None if name is None else SimpleType(name)
