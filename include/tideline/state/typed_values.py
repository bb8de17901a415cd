"""Check values against declared types, and store them as JSON that gives the same values back.

A value that a processor has set is exact or refused, by the rules of decoding: no text is a number, no fraction is an
integer. What is checked is also brought into one form (a tuple becomes a list, 1 becomes 1.0 in a column of doubles).
So it makes no difference whether a state was stored in between.
"""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from typing import Any

import orjson

from tideline.domain.columns import MAX_PRECISION, WHOLE, ArrayType, ColumnType, DecimalType, SimpleType, StructType

OPTIONS = orjson.OPT_UTC_Z
"""How values are written as JSON."""
_AS_THEY_ARE = ("string", WHOLE, "boolean", "smallint", "int", "bigint", "timestamp", "date")
_BITS = {"smallint": 16, "int": 32, "bigint": 64}
_TEXTS = {math.inf: "Infinity", -math.inf: "-Infinity"}


class MisfitError(ValueError):
    """A value does not fit its type."""


Fit = Callable[[Any], Any]
"""Returns a value in the form of its type, and raises `MisfitError` if it does not fit. Never called with None."""


def fit(kind: ColumnType) -> Fit:
    """Return a function that checks a value of a type, and returns it in one form, without anything that the caller may change."""
    match kind:
        case DecimalType():
            return lambda value: _decimal(value, kind)
        case ArrayType(element=element):
            of_element = or_null(fit(element))
            return lambda value: [of_element(one) for one in _expected(value, kind, list, tuple)]
        case StructType(fields=fields):
            return fit_columns(dict(fields))
        case SimpleType(name=name) if name in _BITS:
            return _integer(kind, _BITS[name])
        case SimpleType(name=name):
            return _SIMPLE[name]


def fit_columns(columns: Mapping[str, ColumnType]) -> Fit:
    """Return a function that checks a mapping by columns. A column that is missing is null, and one that is not declared does not fit."""
    fits = {name: fit(kind) for name, kind in columns.items()}

    def of_columns(value: Any) -> dict[str, Any]:
        given = _expected(value, "columns by name", dict)
        if not given.keys() <= fits.keys():
            raise MisfitError(f"column {next(name for name in given if name not in fits)}: not declared")
        found = {}
        name = ""
        try:
            for name, of_column in fits.items():
                one = given.get(name)
                found[name] = None if one is None else of_column(one)
        except MisfitError as error:
            raise MisfitError(f"column {name}: {error}") from None
        return found

    return of_columns


def or_null(of_value: Fit) -> Fit:
    """Return a function that passes None, and anything else to `of_value`."""
    return lambda value: None if value is None else of_value(value)


def restore(kind: ColumnType) -> Fit:
    """Return a function that turns a value from JSON into one of a type."""
    match kind:
        case DecimalType():
            return Decimal
        case ArrayType(element=element):
            of_element = or_null(restore(element))
            return lambda value: [of_element(one) for one in value]
        case StructType(fields=fields):
            return restore_columns(dict(fields), {})
        case SimpleType(name=name):
            return _FROM_JSON.get(name, lambda value: value)


def restore_columns(columns: Mapping[str, ColumnType], former: Mapping[str, Sequence[str]]) -> Fit:
    """Return a function that turns a mapping from JSON into columns. Those that are missing are null, and others are left out.

    Args:
        columns: The columns and their types.
        former: For a column that had other names, these, newest first. They are used where the column itself is missing.
    """
    found = {name: (or_null(restore(kind)), (name, *former.get(name, ()))) for name, kind in columns.items()}

    def of_json(value: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: of_column(next((value[one] for one in names if one in value), None))
            for name, (of_column, names) in found.items()
        }

    return of_json


def write_columns(columns: Mapping[str, ColumnType]) -> Callable[[Mapping[str, Any]], bytes]:
    """Return a function that returns checked columns as JSON, without those that are null: an added column and one that is null are the same."""
    ways = [(name, None if str(kind) in _AS_THEY_ARE else plain) for name, kind in columns.items()]

    def of_columns(value: Mapping[str, Any]) -> bytes:
        found = {name: one if way is None else way(one) for name, way in ways if (one := value[name]) is not None}
        return orjson.dumps(found, option=OPTIONS)

    return of_columns


def plain(value: Any) -> Any:
    """Return a value as JSON has it: exact numbers as text, and numbers that JSON does not have too."""
    match value:
        case Decimal():
            return format(value, "f")
        case float() if not math.isfinite(value):
            return _TEXTS.get(value, "NaN")
        case list():
            return [plain(one) for one in value]
        case dict():
            return {name: plain(one) for name, one in value.items()}
    return value


def _expected(value: Any, kind: object, *types: type) -> Any:
    if type(value) not in types:  # a subclass, such as a Timestamp of pandas, may hold more than the type does
        raise MisfitError(f"expected {kind}, found {type(value).__name__}")
    return value


def _integer(kind: ColumnType, bits: int) -> Fit:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def of_value(value: Any) -> int:
        number: int = value if type(value) is int else _expected(value, kind, int)
        if not low <= number <= high:
            raise MisfitError(f"a number is too large for {kind}")
        return number

    return of_value


def _decimal(value: Any, kind: DecimalType) -> Decimal:
    given = Decimal(_expected(value, kind, Decimal, int))
    if not given.is_finite():
        raise MisfitError(f"expected {kind}, found {given}")
    with localcontext(prec=2 * MAX_PRECISION):
        if given.adjusted() >= kind.precision - kind.scale and given:
            raise MisfitError(f"a number has too many digits for {kind}")
        found = given.quantize(Decimal(1).scaleb(-kind.scale))
        if found != given:
            raise MisfitError(f"a number has too many digits after the point for {kind}")
    return found or abs(found)  # no negative zero


def _text(value: Any) -> str:
    text: str = _expected(value, "string", str)
    if "\0" in text:
        raise MisfitError("a text holds U+0000, which Postgres cannot store")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MisfitError("a text holds half of a surrogate pair") from None
    return text


def _json(value: Any) -> str:
    text = _text(value)
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise MisfitError(f"not valid JSON: {error}") from None
    return text


def _double(value: Any) -> float:
    try:
        return float(_expected(value, "double", float, int)) + 0.0  # no negative zero: JSON in Postgres has none
    except OverflowError:
        raise MisfitError("a number is too large for double") from None


def _float(value: Any) -> float:
    number = _double(value)
    try:
        narrowed: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise MisfitError("a number is too large for float") from None
    return narrowed + 0.0


def _timestamp(value: Any) -> datetime:
    if type(value) is datetime and value.tzinfo is UTC:
        return value
    moment: datetime = _expected(value, "timestamp", datetime)
    if moment.tzinfo is None:
        raise MisfitError("a timestamp without a zone is not a point in time")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise MisfitError("a timestamp is not in the years 1 to 9999 of UTC") from None


def _date(value: Any) -> date:
    day: date = _expected(value, "date", date)
    return day


_SIMPLE: dict[str, Fit] = {
    "string": _text,
    WHOLE: _json,
    "boolean": lambda value: _expected(value, "boolean", bool),
    "float": _float,
    "double": _double,
    "timestamp": _timestamp,
    "date": _date,
}
_FROM_JSON: dict[str, Fit] = {
    "float": float,
    "double": float,
    "timestamp": datetime.fromisoformat,
    "date": date.fromisoformat,
}
