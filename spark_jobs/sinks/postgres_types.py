"""Arrow columns into Postgres columns: what fits, and how it is handed to binary COPY, which converts nothing by itself."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a Postgres table."""

    name: str
    type_name: str
    """As `format_type` without its modifier: `numeric`, `timestamp with time zone`."""
    precision: int | None
    scale: int | None
    """Of `numeric(precision, scale)`; None where it is not declared."""
    required: bool
    """NOT NULL and without a default: somebody must give a value."""


def _is_text(kind: pa.DataType) -> bool:
    return bool(at.is_string(kind) or at.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(at.is_binary(kind) or at.is_large_binary(kind) or at.is_fixed_size_binary(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(at.is_integer(kind) or at.is_decimal(kind))


def _is_list_of_text(kind: pa.DataType) -> bool:
    return bool(at.is_list(kind)) and _is_text(kind.value_type)


# type name -> the Arrow types that may go in, and the Arrow type that COPY takes for it
_TYPES: dict[str, tuple[Callable[[pa.DataType], bool], pa.DataType]] = {
    "boolean": (at.is_boolean, pa.bool_()),
    "smallint": (at.is_integer, pa.int16()),
    "integer": (at.is_integer, pa.int32()),
    "bigint": (at.is_integer, pa.int64()),
    "real": (at.is_floating, pa.float32()),
    "double precision": (at.is_floating, pa.float64()),
    "numeric": (_is_number, None),
    "text": (_is_text, pa.string()),
    "character varying": (_is_text, pa.string()),
    "date": (at.is_date, pa.date32()),
    "timestamp with time zone": (at.is_timestamp, pa.timestamp("us", tz="UTC")),
    "bytea": (_is_bytes, pa.binary()),
    "uuid": (lambda kind: _is_text(kind) or _is_bytes(kind), pa.binary(16)),
    "json": (_is_text, pa.string()),
    "jsonb": (_is_text, pa.binary()),
    "text[]": (_is_list_of_text, pa.list_(pa.string())),
}


def misfit(produced: pa.DataType, column: Column) -> str | None:
    """Why values of the Arrow type cannot go into the column, or None where they can."""
    if column.type_name not in _TYPES:
        return f"type {column.type_name} is not supported; supported: {', '.join(_TYPES)}"
    fits, _ = _TYPES[column.type_name]
    return None if fits(produced) else f"cannot hold Arrow type {produced}"


def converted(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """The values as COPY takes them for the column.

    Raises:
        pa.ArrowInvalid: A value does not fit: out of range, too many digits, no UUID.
        ValueError: A text is no UUID.
    """
    _, target = _TYPES[column.type_name]
    if column.type_name == "numeric":
        return values.cast(_decimal(values.type, column))
    if column.type_name == "uuid" and _is_text(values.type):
        return pa.chunked_array([[None if v is None else uuid.UUID(v).bytes for v in values.to_pylist()]], target)
    if column.type_name == "jsonb":
        return pc.binary_join_element_wise(b"\x01", values.cast(pa.binary()), b"")  # its version, then the text
    return values.cast(target)


def _decimal(produced: pa.DataType, column: Column) -> pa.DataType:
    if column.precision is not None:
        return pa.decimal128(min(column.precision, 38), column.scale or 0)
    return produced if at.is_decimal(produced) else pa.decimal128(38, 0)
