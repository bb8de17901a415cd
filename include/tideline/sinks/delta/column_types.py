"""Map Arrow columns to the columns of a Delta table: which types fit, and how values are converted."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

PARTITION_TYPES = "text, an integer, a date or a boolean"
_WITHOUT_ZONE = (
    "without a zone it is not a point in time; set its zone with pyarrow's `assume_timezone` in `records`, or use TIMESTAMP instead of "
    "TIMESTAMP_NTZ in `frame`"
)


def delta_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column that holds values of this Arrow type.

    Raises:
        ValueError: Delta has no such type. The message says what to do.
    """
    if at.is_timestamp(kind) and kind.tz is None:
        raise ValueError(_WITHOUT_ZONE)
    for fits, made in _TYPES:
        if fits(kind):
            return made(kind)
    raise ValueError("Delta has no such type; cast it in the transform")


def _map(kind: pa.DataType) -> pa.DataType:
    return pa.map_(delta_type(kind.key_type), delta_type(kind.item_type))


def _struct(kind: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field(part.name, delta_type(part.type)) for part in kind])


def _itself(kind: pa.DataType) -> pa.DataType:
    return kind


_TYPES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], pa.DataType]], ...] = (
    (at.is_dictionary, lambda kind: delta_type(kind.value_type)),
    (lambda kind: at.is_string(kind) or at.is_large_string(kind) or at.is_string_view(kind), lambda _: pa.string()),
    (lambda kind: at.is_binary(kind) or at.is_large_binary(kind), lambda _: pa.binary()),
    (lambda kind: at.is_binary_view(kind) or at.is_fixed_size_binary(kind), lambda _: pa.binary()),
    (at.is_timestamp, lambda _: pa.timestamp("us", tz="UTC")),
    (lambda kind: at.is_list(kind) or at.is_large_list(kind), lambda kind: pa.list_(delta_type(kind.value_type))),
    (at.is_struct, _struct),
    (at.is_map, _map),
    (lambda kind: at.is_decimal128(kind) or at.is_signed_integer(kind) or at.is_boolean(kind), _itself),
    (lambda kind: at.is_float32(kind) or at.is_float64(kind) or at.is_date32(kind), _itself),
)
"""A check for Arrow types, and what they become."""


def misfit(produced: pa.DataType, column: pa.Field) -> str | None:
    """Return why values of the Arrow type do not fit a column of the table, or None if they may."""
    try:
        given = delta_type(produced)
    except ValueError as error:
        return f"cannot hold Arrow type {produced}: {error}"
    for family in (at.is_signed_integer, at.is_floating, at.is_decimal):
        if family(given) and family(column.type):
            return None
    return None if same_type(given, column.type) else f"cannot hold Arrow type {produced}"


def same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether two columns hold the same values."""
    return bool(_plain(one).equals(_plain(other)))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type without the names and the nullability of what it holds, which readers may change."""
    kind = delta_type(kind)
    if at.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if at.is_struct(kind):
        return pa.struct([pa.field(part.name, _plain(part.type)) for part in kind])
    return kind


def converted(values: pa.ChunkedArray, column: pa.Field) -> pa.ChunkedArray:
    """Convert values to the type of the column.

    Raises:
        pa.ArrowInvalid: A value does not fit: it is out of range, or has too many digits.
        ValueError: A value is null in a column that is NOT NULL, or a number is too large.
    """
    if values.null_count and not column.nullable:
        raise ValueError("null, and the column is NOT NULL")
    given = values.cast(column.type)
    if at.is_float32(column.type) and at.is_float64(values.type):
        finite = pc.equal(pc.is_finite(values), pc.is_finite(given))
        if not pc.all(pc.fill_null(finite, True)).as_py():
            raise ValueError("a number is too large for float")
    return given


def may_partition(kind: pa.DataType) -> bool:
    """Return whether a table can be partitioned by a column of this type."""
    return bool(at.is_string(kind) or at.is_signed_integer(kind) or at.is_date32(kind) or at.is_boolean(kind))
