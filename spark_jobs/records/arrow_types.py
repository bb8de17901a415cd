"""Declared column types as Arrow types: what a column holds, and what JSON is parsed as on the way there."""

import pyarrow as pa

from tideline.domain.columns import ArrayType, ColumnType, DecimalType, SimpleType, StructType

_SIMPLE: dict[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
}


def arrow_type(kind: ColumnType) -> pa.DataType:
    """The Arrow type of a column's values."""
    match kind:
        case SimpleType(name=name):
            return _SIMPLE[name]
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element=element):
            return pa.list_(arrow_type(element))
        case StructType(fields=fields):
            return pa.struct([(name, arrow_type(inner)) for name, inner in fields])


def wire_type(kind: ColumnType) -> pa.DataType:
    """The type to parse as, before a cast to `arrow_type`: where the parser is lax the cast is not."""
    match kind:
        case SimpleType(name="timestamp" | "date"):
            return pa.string()  # the parser takes a timestamp without a zone for UTC, and a date only as a number
        case DecimalType(scale=scale):
            # As decimal(12,4) the parser lets 123456789012 through and refuses 99999999.99990; as decimal(38,10) it
            # wraps 1e30 to another number. It appends up to `scale` digits after its check: 76 in all fit 256 bits.
            return pa.decimal256(76 - scale, scale)
        case ArrayType(element=element):
            return pa.list_(wire_type(element))
        case StructType(fields=fields):
            return pa.struct([(name, wire_type(inner)) for name, inner in fields])
        case _:
            return arrow_type(kind)
