"""Validate one JSON value at a time, and describe what is wrong with it.

This module produces the reasons that are stored with rejects of decoding. It does not build columns:
`tideline.formats` does that for whole batches. That module calls `object_in` for every record, and
`type_fault` only if a batch could not be converted.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from functools import partial
from typing import TypeGuard

import orjson
import pyarrow as pa

from tideline.domain.columns import ArrayType, ColumnType, DecimalType, SimpleType, StructType
from tideline.formats.ranges import NUL_IN_TEXT

Check = Callable[[object], str | None]
"""Returns what is wrong with a value that is not null, starting with its path; None if the value fits."""

INTEGER_BITS = {"smallint": 16, "int": 32, "bigint": 64}
_WORDS = {"timestamp": "timestamp with a zone, to the microsecond", "date": "date as 2026-01-31"}
MAX_PLACES = 76
"""The most digits that a decimal may have after the point. For more digits Arrow's parser reads beyond the end of a
lookup table: it returns a wrong number, or the process crashes."""
_SHOWN = 60
TWICE = object()
"""The value of a key that occurs more than once in its object."""
_FLOAT_OVERFLOW = 2**128 - 2**103  # from here on the nearest 32-bit float is infinity
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_ZONE = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)\Z", re.ASCII)
# Matches a number that may have more than `MAX_PLACES` digits after the point. Its exponent is below -37; or a negative
# exponent follows 38 digits or more; or the number may be written with escapes. Each pattern begins with a literal,
# because the search is fast only then.
_FAR = [re.compile(rb"%b-(?:(?:[4-9]\d|3[89]|\d{3,})[\"\s,\]}]|(?<=[\d.]{38}%b-)\d)" % (e, e)) for e in (b"e", b"E")]
_FAR.append(re.compile(rb"\\u00(?:2[dD]|3\d|[46]5)"))
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII)


def syntax_fault(raw: bytes | None) -> str | None:
    """Return why `raw` is not exactly one JSON object; None if it is one.

    Strict: no NaN or Infinity, no byte order mark, valid UTF-8, no half surrogates, at most 1024 levels deep, numbers
    within the range of a double. Whitespace and newlines around and between the tokens are allowed.
    """
    found = object_in(raw)
    return found if isinstance(found, str) else None


def object_in(raw: bytes | None) -> dict[str, object] | str:
    """Return the JSON object that orjson parses from `raw`, or the reason why it is not one."""
    if raw is None:
        return "value is null: a tombstone holds no fields"
    if not raw:
        return "value is empty: expected a JSON object"
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return f"not valid JSON: {error}"
    return value if type(value) is dict else f"expected a JSON object, found {_shown(value)}"


def may_hold_far_digits(text: bytes) -> bool:
    """Return whether a number in the JSON `text` may have more than `MAX_PLACES` digits after the point.

    If not, each number is safe for Arrow: it has a negative exponent of at most 37 behind fewer than 38 digits, or more
    digits than Arrow examines.
    """
    return any(pattern.search(text) for pattern in _FAR)


def type_fault(columns: Mapping[str, ColumnType], *, unsure: str | None = None) -> Callable[[bytes], str | None]:
    """Return a function that describes the first field of a JSON object that does not fit its column; None if all fit.

    A record for which it returns a fault cannot be converted. A record for which it returns None may still fail to
    convert, because Python cannot represent its numbers, or because it is nested deeper than Python's recursion limit.
    So the conversion of such records must still be tried.

    Args:
        columns: The declared columns.
        unsure: The result for a record that Python cannot check, because of its numbers or its depth of nesting.
    """
    check = partial(_struct_fault, [(name, _check(kind)) for name, kind in columns.items()])
    # Not orjson: it rounds a decimal to a double, and keeps only the last of two equal keys.
    parse = json.JSONDecoder(object_pairs_hook=object_from_pairs, parse_float=Decimal).decode

    def fault(raw: bytes) -> str | None:
        try:
            problem = check(parse(raw.decode()))
        except (RecursionError, DecimalException):
            return unsure
        return problem.removeprefix(".") if problem else None

    return fault


def object_from_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object as `json` shall make it (`object_pairs_hook`), with `TWICE` for keys that occur more than once."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        fields |= {name: TWICE for name, count in Counter(name for name, _ in pairs).items() if count > 1}
    return fields


def _check(kind: ColumnType) -> Check:
    match kind:
        case StructType(fields=fields):
            return partial(_struct_fault, [(name, _check(inner)) for name, inner in fields])
        case ArrayType(element=element):
            return partial(_array_fault, _check(element))
        case DecimalType(precision=precision, scale=scale):
            context = Context(prec=precision, traps=[Inexact, InvalidOperation])
            fits: Callable[[object], bool] = partial(_fits_decimal, context, Decimal(1).scaleb(-scale))
        case SimpleType(name="string"):
            return _string_fault
        case SimpleType(name=name):
            fits = FITS[name]
    expected = _WORDS.get(str(kind), str(kind))
    return lambda value: None if fits(value) else f": expected {expected}, found {_shown(value)}"


def _struct_fault(checks: Iterable[tuple[str, Check]], value: object) -> str | None:
    if not isinstance(value, dict):
        return f": expected an object, found {_shown(value)}"
    for name, check in checks:
        inner = value.get(name)
        if inner is TWICE:
            return f".{name}: is there twice"
        if inner is not None and (problem := check(inner)):
            return f".{name}{problem}"
    return None


def _array_fault(check: Check, value: object) -> str | None:
    if not isinstance(value, list):
        return f": expected an array, found {_shown(value)}"
    for place, inner in enumerate(value):
        if inner is not None and (problem := check(inner)):
            return f"[{place}]{problem}"
    return None


def _string_fault(value: object) -> str | None:
    if not isinstance(value, str):
        return f": expected string, found {_shown(value)}"
    return f": {NUL_IN_TEXT}" if "\0" in value else None


def _is_number(value: object) -> TypeGuard[int | Decimal]:
    return type(value) in (int, Decimal)  # not isinstance, because True is an int as well


def _fits_float(value: object) -> bool:
    # The comparison is exact. With rounding to a double, a number just below the limit would be rejected although it
    # converts.
    return _is_number(value) and -_FLOAT_OVERFLOW < value < _FLOAT_OVERFLOW


def _fits_integer(bits: int, value: object) -> bool:
    return type(value) is int and -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def _fits_decimal(context: Context, quantum: Decimal, value: object) -> bool:
    if not ((isinstance(value, str) and _NUMBER.fullmatch(value)) or _is_number(value)):
        return False
    try:
        number = Decimal(value)
        number.quantize(quantum, context=context)
    except (Inexact, InvalidOperation):
        return False
    return int(number.as_tuple().exponent) >= -MAX_PLACES


def _fits_moment(
    pattern: re.Pattern[str], parse: Callable[[str], object], arrow_type: pa.DataType, value: object
) -> bool:
    if not isinstance(value, str):
        return False
    try:
        # Arrow decides, but a call takes 9 us per value. The common form is checked without it.
        if pattern.fullmatch(value) and parse(value):
            return True
    except ValueError:
        pass
    try:
        return bool(pa.scalar(value).cast(arrow_type).is_valid)
    except pa.ArrowInvalid:
        return False


def _fits_timestamp(value: object) -> bool:
    # In a topic without zones every record is bad. Calling Arrow for each would be ten times slower than a good topic.
    if not isinstance(value, str) or not _ZONE.search(value):
        return False
    return _fits_moment(TIMESTAMP, datetime.fromisoformat, pa.timestamp("us", tz="UTC"), value)


FITS: dict[str, Callable[[object], bool]] = {
    **{name: partial(_fits_integer, bits) for name, bits in INTEGER_BITS.items()},
    "boolean": lambda value: isinstance(value, bool),
    "double": _is_number,
    "float": _fits_float,
    "timestamp": _fits_timestamp,
    "date": partial(_fits_moment, DATE, date.fromisoformat, pa.date32()),
}


def _shown(value: object) -> str:
    """Describe any value briefly, on one line."""
    match value:
        case dict():
            return "an object"
        case list():
            return "an array"
        case str():
            return f"string {value[:_SHOWN]!r}{'...' if len(value) > _SHOWN else ''}"
        case None | bool():
            return str(orjson.dumps(value), "ascii")
        case _:
            return f"number {str(value)[:_SHOWN]}"
