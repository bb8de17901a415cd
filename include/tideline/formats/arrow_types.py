"""Map declared column types to Arrow types: the type of a column's values, and the type that JSON is parsed as first. Say what Arrow types hold."""

import pyarrow as pa
import pyarrow.types as at

from tideline.domain.columns import WHOLE, ArrayType, ColumnType, DecimalType, SimpleType, StructType

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
    WHOLE: pa.string(),
}


def arrow_type(kind: ColumnType) -> pa.DataType:
    """Return the Arrow type of a column's values."""
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
    """Return the type to parse JSON as, before a cast to `arrow_type`. The cast is strict where the parser is lax."""
    match kind:
        case SimpleType(name="timestamp" | "date"):
            return (
                pa.string()
            )  # the parser reads a timestamp without a zone as UTC, and accepts a date only as a number
        case DecimalType(scale=scale):
            # As decimal(12,4) the parser accepts 123456789012 and refuses 99999999.99990. As decimal(38,10) it turns
            # 1e30 into another number, by overflow. After its check it appends up to `scale` digits: 76 in all fit
            # into 256 bits.
            return pa.decimal256(76 - scale, scale)
        case ArrayType(element=element):
            return pa.list_(wire_type(element))
        case StructType(fields=fields):
            return pa.struct([(name, wire_type(inner)) for name, inner in fields])
        case _:
            return arrow_type(kind)


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a text."""
    return bool(at.is_string(kind) or at.is_large_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether an Arrow type holds bytes."""
    return bool(at.is_binary(kind) or at.is_large_binary(kind) or at.is_fixed_size_binary(kind))


def entries(maps: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """Return the keys and the values of maps, none of which is null, one map after the other."""
    first, last = (maps.offsets[at].as_py() for at in (0, len(maps)))
    return maps.keys[first:last], maps.items[first:last]
