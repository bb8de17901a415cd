"""Describe values of Protobuf by the message that they name: which of its fields become columns, of which types. Pure functions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor

from tideline.authoring.doubts import Doubt, left_out
from tideline.domain.columns import WHOLE, ArrayType, ColumnType, DecimalType, SimpleType, StructType
from tideline.domain.schemas import Schema
from tideline.formats.protobuf.compiling import Messages, ProtobufSchemaError, compiled
from tideline.formats.protobuf.protobuf_format import Heads
from tideline.formats.protobuf.schema import MOMENT, WRAPPERS, shown

_SAME = {
    FieldDescriptor.TYPE_BOOL: "boolean",
    FieldDescriptor.TYPE_INT32: "int",
    FieldDescriptor.TYPE_SINT32: "int",
    FieldDescriptor.TYPE_SFIXED32: "int",
    FieldDescriptor.TYPE_UINT32: "bigint",
    FieldDescriptor.TYPE_FIXED32: "bigint",
    FieldDescriptor.TYPE_INT64: "bigint",
    FieldDescriptor.TYPE_SINT64: "bigint",
    FieldDescriptor.TYPE_SFIXED64: "bigint",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_ENUM: "string",
}
_UNSIGNED = (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)


def fields_of(
    schema_id: int, schema: Schema, bodies: Sequence[bytes]
) -> tuple[str | None, list[tuple[str, ColumnType]], list[Doubt]]:
    """Return the message that most of the values are, its fields that can be columns, and what is doubtful.

    Args:
        schema_id: The id of the schema.
        schema: The schema.
        bodies: The values that name it, behind their id.
    """
    try:
        messages = Messages(compiled(schema.text, schema.references))
    except ProtobufSchemaError as error:
        doubt = Doubt("records", f"schema {schema_id}: {error}", "no columns", "Leave such records to transform.py")
        return None, [], [doubt]
    names = Heads(pa.array(bodies, pa.binary())).names(np.arange(len(bodies)), messages).most_common()
    if not names:
        return None, [], []
    doubts = []
    if len(names) > 1:
        counts = ", ".join(f"{name} in {count:,}" for name, count in names)
        advice = "A pipeline reads one message: make another one for each of the others"
        doubts.append(Doubt("records", f"they are of {len(names)} messages: {counts}", names[0][0], advice))
    fields: list[tuple[str, ColumnType]] = []
    for field in messages.named(names[0][0]).fields:
        kind = _type(field, (names[0][0],)) or (SimpleType(WHOLE) if field.message_type is not None else None)
        if kind is None:
            doubts.append(left_out(field.name, f"the schema has {shown(field)}", "No column type holds it yet"))
        elif field.name == "kafka":
            doubts.append(left_out(field.name, "topic, offset and headers stand under this name", "Rename it"))
        else:
            fields.append((field.name, kind))
    return names[0][0], fields, doubts


def _type(field: Any, around: tuple[str, ...]) -> ColumnType | None:
    """Return the column type that holds each value of a field; None if there is none.

    Args:
        field: The field.
        around: The messages around it. One that contains itself has no type.
    """
    kind = _one(field, around)
    return ArrayType(element=kind) if kind is not None and field.is_repeated else kind


def _one(field: Any, around: tuple[str, ...]) -> ColumnType | None:
    inner = field.message_type
    if inner is None:
        if field.type in _UNSIGNED:
            return DecimalType(precision=20, scale=0)
        return SimpleType(_SAME[field.type]) if field.type in _SAME else None
    if inner.full_name == MOMENT:
        return SimpleType("timestamp")
    if inner.full_name in WRAPPERS:
        return _one(inner.fields_by_name["value"], around)
    if field.type == FieldDescriptor.TYPE_GROUP or inner.full_name in around:
        return None
    below = (*around, inner.full_name)
    parts = tuple((one.name, kind) for one in inner.fields if (kind := _type(one, below)) is not None)
    is_entry = inner.GetOptions().map_entry
    return None if not parts or (is_entry and len(parts) == 1) else StructType(fields=parts)
