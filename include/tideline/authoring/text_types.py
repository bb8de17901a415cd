"""Infer the type of text at the top of a record, and of numbers that stand in text. Pure functions."""

import re
from collections.abc import Sequence
from decimal import Decimal

from tideline.authoring.doubts import Doubt
from tideline.domain.columns import MAX_PRECISION, ColumnType, DecimalType, SimpleType
from tideline.formats.json_validation import DATE, FITS

STRING = SimpleType("string")
_USUAL_PRECISION = 18
_SPARE_DIGITS = 4
"""Digits before the point that the usual precision leaves for larger numbers than those that were seen."""
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)\.\d+", re.ASCII)
_WHOLE = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_LOCAL_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?", re.ASCII)


def text_type(name: str, texts: Sequence[str], doubts: list[Doubt]) -> ColumnType:
    """Return the type of text at the top of a record: a timestamp, a date, a decimal or a string."""
    if all(map(FITS["timestamp"], texts)):
        return SimpleType("timestamp")
    if all(DATE.fullmatch(text) and FITS["date"](text) for text in texts):
        return SimpleType("date")
    if all(map(_DECIMAL.fullmatch, texts)):
        return decimal_type(name, texts, doubts, seen="text that holds decimal numbers")
    if all(map(_LOCAL_TIME.fullmatch, texts)):
        advice = "If you know their zone, make them timestamps in transform.py with pyarrow.compute.assume_timezone"
        doubts.append(Doubt(name, "timestamps without a zone, which are no points in time", "string", advice))
    return STRING


def decimal_type(name: str, values: Sequence[object], doubts: list[Doubt], *, seen: str) -> ColumnType:
    """Return a decimal type that holds numbers and text that holds numbers; a string if there is none."""
    numbers = [number for value in values if (number := as_decimal(value)) is not None]
    scale = max(max(0, -int(number.as_tuple().exponent)) for number in numbers)
    whole = max(number.adjusted() + 1 for number in numbers)
    if max(whole, 0) + scale > MAX_PRECISION:
        doubts.append(
            Doubt(name, f"{seen}, of more than {MAX_PRECISION} digits", "string", "Convert them in transform.py")
        )
        return STRING
    precision = _USUAL_PRECISION if whole + _SPARE_DIGITS + scale <= _USUAL_PRECISION else MAX_PRECISION
    kind = DecimalType(precision=precision, scale=scale)
    advice = f"A number with more than {scale} digits after the point is rejected: declare more, or string if it is no number"
    doubts.append(Doubt(name, seen, str(kind), advice))
    return kind


def is_number(value: object) -> bool:
    """Return whether a JSON value is a number."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def as_decimal(value: object) -> Decimal | None:
    """Return the number that a value holds, as a number or as text."""
    if isinstance(value, str) and not (_DECIMAL.fullmatch(value) or _WHOLE.fullmatch(value)):
        return None
    return Decimal(value) if isinstance(value, str | int | Decimal) and not isinstance(value, bool) else None
