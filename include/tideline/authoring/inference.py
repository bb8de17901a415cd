"""Infer the column types of a declaration from JSON objects. Pure functions: they know no file and no broker.

A type is inferred only where the values allow one. Whatever the values do not decide becomes a doubt, which says what
was seen, what was chosen and how to change it. A doubt quotes no value, because values may be personal data.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from tideline.authoring.doubts import Doubt, counted, left_out
from tideline.authoring.text_types import STRING, as_decimal, decimal_type, is_number, text_type
from tideline.domain.columns import MAX_PRECISION, WHOLE, ArrayType, ColumnType, DecimalType, SimpleType
from tideline.formats.json_validation import TWICE

MAX_FIELDS = 200
"""The most fields that are declared. A record with more is a map: its names are data."""
_MAX_NAME = 60
_FEW = 10
"""Fewer values than this decide no type of text."""
_MONEY_DIGITS = 4
"""Fractions with at most so many digits after the point may be amounts of money, which a double rounds."""
_BIGINT = 1 << 63
_USUAL_PRECISION = 18
_DOUBLE = SimpleType("double")
_WHOLE = SimpleType(WHOLE)
_KEPT_WHOLE = "json: a jsonb column holds the whole value"


class Inferred(NamedTuple):
    """The types of fields, in the order in which the fields were first seen, and what is doubtful about them."""

    types: dict[str, ColumnType]
    doubts: list[Doubt]


def infer(objects: Sequence[Mapping[str, object]]) -> Inferred:
    """Return the types of the fields of JSON objects that one column can hold.

    Args:
        objects: The objects, with fractions as `Decimal` and `TWICE` for keys that occur twice.
    """
    doubts: list[Doubt] = []
    fields = _fields(objects, doubts)
    types = {name: kind for name, values in fields.items() if (kind := _top(name, values, doubts))}
    return Inferred(types, doubts)


def _fields(objects: Iterable[Mapping[str, object]], doubts: list[Doubt]) -> dict[str, list[object]]:
    """Return the values that are not null, by the name of their field; the rarest are left out if there are too many."""
    fields: dict[str, list[object]] = {}
    for one in objects:
        for name, value in one.items():
            fields.setdefault(name, []).append(value)
    if len(fields) > MAX_FIELDS:
        doubts.append(
            Doubt(
                "the record",
                f"{len(fields):,} different names of fields",
                f"the {MAX_FIELDS} most common ones are declared, the others ignored",
                "If the names are data, take them from kafka.value in transform.py",
            )
        )
        common = {
            name for name, _ in Counter({name: len(found) for name, found in fields.items()}).most_common(MAX_FIELDS)
        }
        fields = {name: found for name, found in fields.items() if name in common}
    return {name: [value for value in found if value is not None] for name, found in fields.items()}


def unusable_name(name: str) -> Doubt | None:
    """Return the doubt about a field whose name cannot be that of a column; None if it can."""
    if name == "kafka":
        return left_out(name, "the record's position stands under this name", "Rename it in the producer")
    if name and len(name) <= _MAX_NAME and name.isprintable() and name.isascii():
        return None
    advice = "Take it from kafka.value in transform.py if you need it"
    return left_out(ascii(name[:_MAX_NAME]), f"its name is not 1 to {_MAX_NAME} printable ASCII characters", advice)


def _top(name: str, values: Sequence[object], doubts: list[Doubt]) -> ColumnType | None:
    """Return the type of a field of the record, or None if it cannot be a column."""
    if doubt := unusable_name(name):
        doubts.append(doubt)
        return None
    texts = [value for value in values if isinstance(value, str)]
    if texts and len(texts) == len(values):
        kind = text_type(name, texts, doubts)
    elif texts and any(map(is_number, values)) and all(is_number(v) or as_decimal(v) is not None for v in values):
        kind = decimal_type(name, values, doubts, seen="numbers, and text that holds numbers")
    else:
        return _any(name, values, doubts)
    if len(values) < _FEW and kind != STRING:
        seen = f"only {counted(len(values), 'value')}"
        doubts.append(Doubt(name, seen, str(kind), f"Declare {name}: string if other text may follow"))
    return kind


def _any(path: str, values: Sequence[object], doubts: list[Doubt]) -> ColumnType | None:
    """Return the type of values of any kind; None if no type can be inferred.

    Objects are held whole: other records may have fields that none of these has, and a type would leave them out without a word.
    """
    kinds = Counter(map(_kind, values))
    twice = kinds.pop("twice", 0)
    if not kinds:
        seen = "twice in its object" if twice else "only null"
        doubts.append(left_out(path, seen, "Declare it when you know its type"))
        return None
    if len(kinds) > 1:
        counts = ", ".join(counted(count, name) for name, count in kinds.items())
        advice = "If one of them is a mistake, declare the type of the others: records that do not fit it are rejected"
        doubts.append(Doubt(path, f"values of several types: {counts}", _KEPT_WHOLE, advice))
        return _WHOLE
    [kind] = kinds
    if kind == "number":
        return _number(path, values, doubts)
    if kind == "array" and _holds_texts(values):
        return ArrayType(element=STRING)
    if kind in {"array", "object"}:
        advice = (
            "Declare array<...> or struct<...> if it always has the same parts: parts that are not declared are ignored"
        )
        doubts.append(Doubt(path, f"{kind}s, which may hold anything", _KEPT_WHOLE, advice))
        return _WHOLE
    return SimpleType(kind)


def _holds_texts(arrays: Sequence[object]) -> bool:
    """Return whether each element is a text or null, and at least one is a text."""
    elements = [value for array in arrays if isinstance(array, list) for value in array if value is not None]
    return bool(elements) and all(isinstance(value, str) for value in elements)


def _number(path: str, numbers: Sequence[object], doubts: list[Doubt]) -> ColumnType:
    fractions = [number for number in numbers if isinstance(number, Decimal)]
    whole = [number for number in numbers if isinstance(number, int)]
    if not fractions and all(-_BIGINT <= number < _BIGINT for number in whole):
        return SimpleType("bigint")
    if not fractions and all(abs(number) < 10**MAX_PRECISION for number in whole):
        advice = "Declare string if these are identifiers that the producer can send as text"
        doubts.append(Doubt(path, "whole numbers beyond 64 bits", f"decimal({MAX_PRECISION},0)", advice))
        return DecimalType(precision=MAX_PRECISION, scale=0)
    if not fractions:
        doubts.append(Doubt(path, f"whole numbers of more than {MAX_PRECISION} digits", "double", "It rounds them"))
    elif all(-int(number.as_tuple().exponent) <= _MONEY_DIGITS for number in fractions):
        advice = f"It rounds: for amounts of money declare decimal({_USUAL_PRECISION},{_MONEY_DIGITS})"
        doubts.append(Doubt(path, f"fractions of at most {_MONEY_DIGITS} digits", "double", advice))
    return _DOUBLE


def _kind(value: object) -> str:
    if value is TWICE:
        return "twice"
    if isinstance(value, bool):
        return "boolean"
    if is_number(value):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
