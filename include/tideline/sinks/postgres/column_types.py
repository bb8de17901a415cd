"""Map Arrow columns to Postgres columns: which types fit, and how values are converted for binary COPY, which itself converts nothing."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from tideline.formats.as_json import can_encode, encoded
from tideline.sinks.postgres.text_values import OF_TEXT, of_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a Postgres table."""

    name: str
    type_name: str
    """The result of `format_type` without a modifier: `numeric`, `timestamp with time zone`; `enum` of an enum, and of a domain that of its base."""
    precision: int | None
    scale: int | None
    """Of `numeric(precision, scale)`; None where it is not declared."""
    length: int | None = None
    """Of `character varying(length)` and `character(length)`; None where it is not declared."""
    digits: int | None = None
    """How many digits of a second a time, timestamp or interval keeps, where it is declared; None if all six."""
    filled: str | None = None
    """`GENERATED` or `IDENTITY ALWAYS` if only the table itself may fill the column; else None."""
    required: bool
    """NOT NULL and without a default: the transform or the sink must provide a value."""
    not_null: bool = False
    """NOT NULL, with a default or without."""

    @property
    def sql_type(self) -> str:
        """Return the type as SQL, of a column that was described or is added."""
        sizes = [self.precision, self.scale] if self.precision is not None else [self.length or self.digits]
        given = ", ".join(str(size) for size in sizes if size is not None)
        name, zone, rest = self.type_name.partition(" with")
        return f"{name}({given}){zone}{rest}" if given else self.type_name

    def holds_the_same(self, other: "Column") -> bool:
        """Return whether a value that was converted for one of the columns is the same value in the other one."""
        return (self.sql_type, self.filled) == (other.sql_type, other.filled)


# The texts that Postgres accepts as a UUID. Python accepts more, and makes other UUIDs of them: `0x` and spaces count
# as digits, `_` does not.
_UUID = re.compile(r"(\{)?[0-9a-f]{4}(-?[0-9a-f]{4}){7}(?(1)\})", re.ASCII | re.IGNORECASE)


_MAX_DIGITS = 38
"""The digits of a decimal of 128 bits. Every number for a `numeric` column is converted to one."""
_ZONES = {
    ("timestamp with time zone", False): (
        "without a zone it is not a point in time; set its zone with pyarrow's `assume_timezone` in `records`, or use TIMESTAMP instead of "
        "TIMESTAMP_NTZ in `frame`"
    ),
    ("timestamp without time zone", True): (
        "it would lose its zone; use timestamptz, or make it a local time with pyarrow's `local_timestamp` in `records`, or "
        "TIMESTAMP_NTZ in `frame`"
    ),
}
"""Why timestamps do not fit, by the column's type and whether they have a zone."""


def _is_text(kind: pa.DataType) -> bool:
    return bool(at.is_string(kind) or at.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(at.is_binary(kind) or at.is_large_binary(kind) or at.is_fixed_size_binary(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(at.is_integer(kind) or at.is_decimal(kind))


def _is_document(kind: pa.DataType) -> bool:
    return _is_text(kind) or (bool(at.is_nested(kind)) and can_encode(kind))


# type name -> a check for the Arrow types that fit, and the Arrow type that COPY needs
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
    "character": (_is_text, pa.string()),
    "citext": (_is_text, pa.string()),
    "enum": (_is_text, pa.string()),
    "date": (at.is_date, pa.date32()),
    "timestamp with time zone": (at.is_timestamp, pa.timestamp("us", tz="UTC")),
    "timestamp without time zone": (lambda kind: at.is_timestamp(kind) and kind.tz is None, pa.timestamp("us")),
    "time without time zone": (lambda kind: _is_text(kind) or at.is_time(kind), pa.time64("us")),
    "interval": (lambda kind: _is_text(kind) or at.is_interval(kind), pa.month_day_nano_interval()),
    "inet": (_is_text, pa.binary()),
    "cidr": (_is_text, pa.binary()),
    "bytea": (_is_bytes, pa.binary()),
    "uuid": (lambda kind: _is_text(kind) or _is_bytes(kind), pa.binary(16)),
    "json": (_is_document, pa.string()),
    "jsonb": (_is_document, pa.binary()),
}
_ELEMENTS = (
    "boolean",
    "smallint",
    "integer",
    "bigint",
    "real",
    "double precision",
    "text",
    "date",
    "timestamp with time zone",
)
"""The types of the elements that an array in Postgres may have here. COPY of others is not possible, or would round."""
SUPPORTED = (*_TYPES, *(f"{element}[]" for element in _ELEMENTS))
_REFUSED = {
    "money": "its digits depend on the server's lc_monetary; use numeric",
    "time with time zone": "a zone without a date is no offset from UTC; use timestamp with time zone, or time",
}
"""Why types are not supported, where there is more to say."""


_ADDED: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (at.is_boolean, "boolean"),
    (lambda kind: at.is_int8(kind) or at.is_uint8(kind) or at.is_int16(kind), "smallint"),
    (lambda kind: at.is_uint16(kind) or at.is_int32(kind), "integer"),
    (lambda kind: at.is_uint32(kind) or at.is_int64(kind), "bigint"),
    (at.is_float32, "real"),
    (at.is_float64, "double precision"),
    (at.is_decimal128, "numeric"),
    (_is_text, "text"),
    (_is_bytes, "bytea"),
    (at.is_date, "date"),
    (lambda kind: at.is_timestamp(kind) and kind.tz is not None, "timestamp with time zone"),
    (at.is_timestamp, "timestamp without time zone"),
    (at.is_time, "time without time zone"),
    (at.is_interval, "interval"),
    (lambda kind: at.is_list(kind) and _element_type(kind) is not None, "[]"),
    (_is_document, "jsonb"),
)
"""A check for Arrow types, and the type of a column that is added for them; `[]` for an array of what is added for its elements."""


def added(name: str, produced: pa.DataType) -> Column | None:
    """Return the column that holds all values of an Arrow type, null among them; None if no type surely does."""
    type_name = next((type_name for fits, type_name in _ADDED if fits(produced)), None)
    if type_name is None or (at.is_decimal(produced) and not 0 <= produced.scale <= produced.precision):
        return None
    return Column(
        name=name,
        type_name=f"{_element_type(produced)}[]" if type_name == "[]" else type_name,
        precision=produced.precision if type_name == "numeric" else None,
        scale=produced.scale if type_name == "numeric" else None,
        required=False,
    )


def _element_type(kind: pa.DataType) -> str | None:
    """Return the type that is added for the elements of a list; None if an array cannot have it here."""
    element = added("", kind.value_type)
    return element.type_name if element and element.type_name in _ELEMENTS else None


def misfit(produced: pa.DataType, column: Column) -> str | None:
    """Return why values of the Arrow type do not fit the column, or None if they may."""
    if (why := _takes_nothing(column)) is not None:
        return why
    cannot = f"cannot hold Arrow type {produced}"
    if at.is_decimal(produced) and produced.precision > _MAX_DIGITS:
        return f"{cannot}: more than {_MAX_DIGITS} digits are not supported"
    if at.is_timestamp(produced) and (why := _ZONES.get((column.type_name, produced.tz is not None))):
        return f"{cannot}: {why}"
    if column.type_name.endswith("[]"):
        fits = at.is_list(produced) and misfit(produced.value_type, _element(column)) is None
    else:
        fits = _TYPES[column.type_name][0](produced)
    return None if fits else cannot


def _takes_nothing(column: Column) -> str | None:
    """Return why no value at all can be written to a column; None if some can."""
    if column.type_name not in SUPPORTED:
        more = _REFUSED.get(column.type_name, f"supported: {', '.join(SUPPORTED)}")
        return f"type {column.type_name} is not supported; {more}"
    if column.scale is not None and column.scale < 0:
        return "a negative scale is not supported"
    if column.type_name == "interval" and column.digits is not None:
        return "an interval of certain fields or digits would round its values; use interval"
    if column.filled is not None:
        return f"{column.filled}: only the table fills it, the transform must not return it"
    return None


def _element(column: Column) -> Column:
    """Return an array's column as that of one of its elements."""
    return replace(column, type_name=column.type_name.removesuffix("[]"))


def converted(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Convert the values to the type that COPY needs for the column.

    Raises:
        pa.ArrowInvalid: A value does not fit: it is out of range, has too many digits, or is not a UUID.
        ValueError: A text is too long or is not a UUID, a number is too large, or a nested value cannot be JSON.
    """
    if column.type_name.endswith("[]"):
        return _lists(values, column)
    if column.type_name in OF_TEXT and _is_text(values.type):
        values = of_text(values, column.type_name)
    return _converted(_documents(values) if at.is_nested(values.type) else values, column)


def _documents(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return nested values as JSON."""
    return pa.chunked_array([pc.if_else(one.is_valid(), encoded(one), None) for one in values.chunks], pa.string())


def _converted(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    _, target = _TYPES[column.type_name]
    if column.type_name == "numeric":
        return _exact(values, column)
    if column.type_name == "real":
        return _finite(values, values.cast(target))
    if column.type_name == "uuid" and _is_text(values.type):
        return pa.chunked_array([[None if v is None else _uuid(v) for v in values.to_pylist()]], target)
    if column.type_name == "jsonb":
        return pc.binary_join_element_wise(
            b"\x01", values.cast(pa.binary()), b""
        )  # the binary format of jsonb: a version byte, then the text
    found = values.cast(target)
    if column.digits is not None:
        return _no_finer(found, column)
    return found if column.length is None else _no_longer(found, column)


def _lists(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Convert the elements of lists."""
    lists = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    elements = converted(pa.chunked_array([lists.flatten()]), _element(column))
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths.cast(pa.int64()))]).cast(
        pa.int32()
    )
    flat = pa.concat_arrays(
        [pa.array([], elements.type), *elements.chunks]
    )  # no chunk is left where all lists are empty
    found = pa.ListArray.from_arrays(offsets, flat, mask=lists.is_null())
    return pa.chunked_array([found])


def _no_finer(times: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Return `times`, and refuse one with more digits of a second than the column keeps: Postgres would silently round it."""
    unit = 10 ** (6 - (column.digits or 0))
    us = times.cast(pa.int64())
    if not pc.all(pc.equal(pc.multiply(pc.divide(us, unit), unit), us), min_count=0).as_py():
        raise ValueError(f"the column keeps {column.digits} digits of a second, the value has more")
    return times


def _no_longer(texts: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Return `texts`, and refuse one with more characters than the column holds: Postgres would silently cut off surplus blanks at its end."""
    if (pc.max(pc.utf8_length(texts)).as_py() or 0) > (column.length or 0):
        raise ValueError(f"value too long for type {column.type_name}({column.length})")
    return texts


def _uuid(text: str) -> bytes:
    if not _UUID.fullmatch(text):
        raise ValueError("badly formed UUID")
    return bytes.fromhex(text.strip("{}").replace("-", ""))


def _exact(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Return decimals with at most as many digits after the point as the column has. The server would silently round further digits.

    The scale is only reduced, never increased. When Arrow adds zeros, a number that no longer fits into 128 bits
    becomes another number. The server adds zeros itself, and checks the result.
    """
    if at.is_integer(values.type):
        values = values.cast(pa.decimal128(20, 0))  # any integer of 64 bits, signed or not
    kept = values.type.scale if column.scale is None else min(values.type.scale, column.scale)
    return values.cast(pa.decimal128(values.type.precision, kept))


def _finite(values: pa.ChunkedArray, narrowed: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return `narrowed`, and refuse a number that the conversion has made infinite."""
    if not pc.all(pc.equal(pc.is_finite(values), pc.is_finite(narrowed))).as_py() and len(values) > values.null_count:
        raise ValueError("a number is too large for real")
    return narrowed
