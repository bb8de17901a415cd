"""Encode Arrow columns as JSON texts, column by column, for outputs that hold JSON."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from tideline.formats.arrow_types import is_bytes, is_text
from tideline.formats.encoder import UnencodableError

NO_FORM = "Arrow type {} has no form in JSON"
_NULL = "null"
# JSON escapes no other characters. The backslash comes first.
_ESCAPES = [("\\", "\\\\"), ('"', '\\"'), *((chr(code), f"\\u{code:04x}") for code in range(0x20))]
_join = partial(pc.binary_join_element_wise, null_handling="emit_null")


@dataclass(frozen=True, slots=True)
class JsonObjects:
    """Writes each row as one JSON object, with a member for each column."""

    fields: tuple[str, ...] = ()

    def problems(self, columns: Mapping[str, pa.DataType]) -> list[str]:
        """See `Encoder.problems`."""
        return [f"{name}: {NO_FORM.format(kind)}" for name, kind in columns.items() if not can_encode(kind)]

    def encoded(self, columns: Mapping[str, pa.Array], length: int) -> pa.BinaryArray:
        """See `Encoder.encoded`."""
        return objects(columns, columns.values(), length).cast(pa.binary())


def can_encode(kind: pa.DataType) -> bool:
    """Return whether values of an Arrow type become JSON. Durations and intervals do not: JSON has no usual form for them."""
    if at.is_list(kind) or at.is_large_list(kind) or at.is_fixed_size_list(kind):
        return can_encode(kind.value_type)
    if at.is_struct(kind):
        return all(can_encode(kind.field(number).type) for number in range(kind.num_fields))
    if at.is_map(kind):
        return is_text(kind.key_type) and can_encode(kind.item_type)
    simple = (
        at.is_null,
        at.is_boolean,
        at.is_integer,
        at.is_floating,
        at.is_decimal,
        is_text,
        is_bytes,
        at.is_date,
        at.is_time,
        at.is_timestamp,
    )
    return any(fits(kind) for fits in simple)


def objects(names: Iterable[str], columns: Iterable[pa.Array], length: int) -> pa.Array:
    """Return one JSON object for each row, with a member for each column.

    Raises:
        UnencodableError: A value has no form in JSON. The message names its column.
    """
    parts: list[pa.Array | pa.Scalar] = []
    for name, column in zip(names, columns, strict=True):
        [label] = encoded(pa.array([name])).to_pylist()
        try:
            texts = encoded(column)
        except (UnencodableError, pa.ArrowInvalid) as error:
            raise UnencodableError(f"column {name}: {error}") from error
        parts += [pa.scalar(f"{',' if parts else '{'}{label}:"), texts]
    return _join(*parts, "}", "") if parts else pa.repeat(pa.scalar("{}"), length)


def encoded(values: pa.Array) -> pa.Array:
    """Return the JSON text of each value; `null` for a null. Texts are escaped only as far as JSON requires.

    Numbers have all their digits. Bytes are Base64. A timestamp is ISO 8601 with six digits of a second, and ends with Z if its type has a
    zone.

    Raises:
        UnencodableError: A number is NaN or infinite.
        pa.ArrowInvalid: A date or timestamp is outside of the years 1 to 9999.
    """
    return pc.fill_null(_filled(values), _NULL).cast(pa.string())


def _filled(values: pa.Array) -> pa.Array:
    """Return the JSON text of each value that is not null."""
    kind = values.type
    if at.is_nested(kind):
        return _nested(values)
    if is_text(kind):
        return _quoted(_escaped(values.cast(pa.string())))
    if is_bytes(kind):
        texts = [None if one is None else base64.b64encode(one).decode() for one in values.to_pylist()]
        return _quoted(pa.array(texts, pa.string()))
    if at.is_timestamp(kind):
        texts = values.cast(pa.timestamp("us")).cast(pa.string())
        return _quoted(_join(pc.replace_substring(texts, " ", "T"), "Z" if kind.tz else "", ""))
    if at.is_floating(kind) and not pc.all(pc.is_finite(values), min_count=0).as_py():
        raise UnencodableError("JSON has no NaN and no infinite numbers")
    texts = values.cast(pa.string())
    return _quoted(texts) if at.is_date(kind) or at.is_time(kind) else texts


def _quoted(texts: pa.Array) -> pa.Array:
    return _join('"', texts, '"', "")


def _escaped(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(texts, r'[\x00-\x1f"\\]')).as_py():
        for plain, escaped in _ESCAPES:
            texts = pc.replace_substring(texts, plain, escaped)
    return texts


def _nested(values: pa.Array) -> pa.Array:
    kind = values.type
    if at.is_struct(kind):
        names = [kind.field(number).name for number in range(kind.num_fields)]
        whole = objects(names, values.flatten(), len(values))
        return pc.if_else(values.is_valid(), whole, None)
    if at.is_map(kind):
        members = _join(encoded(values.keys), encoded(values.items), ":")
        return _join("{", _listed(values.offsets, members, values.is_valid()), "}", "")
    values = values.cast(pa.list_(kind.value_type)) if not at.is_list(kind) else values
    return _join("[", _listed(values.offsets, encoded(values.values), values.is_valid()), "]", "")


def _listed(offsets: pa.Array, members: pa.Array, valid: pa.Array) -> pa.Array:
    """Return the members of each list, with commas between them; null where the list is null."""
    return pc.if_else(valid, pc.binary_join(pa.ListArray.from_arrays(offsets, members), ","), None)
