"""Infer the column types of a declaration from JSON objects. Pure functions: they know no file and no broker.

A type is inferred only where the values allow one. Whatever the values do not decide becomes a doubt, which says what
was seen, what was chosen and how to change it. A doubt quotes no value, because values may be personal data.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from spark_jobs.records.json_validation import TWICE
from tideline.authoring.doubts import Doubt, counted, left_out
from tideline.authoring.text_types import STRING, as_decimal, decimal_type, is_number, text_type
from tideline.domain.columns import MAX_PRECISION, ArrayType, ColumnType, DecimalType, SimpleType, StructType

MAX_FIELDS = 200
"""The most fields of one object that are declared. An object with more is a map: its names are data."""
_MAX_DEPTH = 16
_MAX_NAME = 60
_FEW = 10
"""Fewer values than this decide no type of text."""
_MONEY_DIGITS = 4
"""Fractions with at most so many digits after the point may be amounts of money, which a double rounds."""
_BIGINT = 1 << 63
_USUAL_PRECISION = 18
_FIELD_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DOUBLE = SimpleType("double")


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
    fields = _fields(objects, "", doubts)
    types = {name: kind for name, values in fields.items() if (kind := _top(name, values, doubts))}
    if "kafka" in types:
        del types["kafka"]
        doubts.append(left_out("kafka", "the record's position stands under this name", "Rename it in the producer"))
    return Inferred(types, doubts)


def _fields(objects: Iterable[Mapping[str, object]], path: str, doubts: list[Doubt]) -> dict[str, list[object]]:
    """Return the values that are not null, by the name of their field; rare fields of a map are left out."""
    fields: dict[str, list[object]] = {}
    for one in objects:
        for name, value in one.items():
            fields.setdefault(name, []).append(value)
    if len(fields) > MAX_FIELDS:
        doubts.append(
            Doubt(
                path or "the record",
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


def _top(name: str, values: Sequence[object], doubts: list[Doubt]) -> ColumnType | None:
    """Return the type of a field of the record, or None if it cannot be a column."""
    if not name or len(name) > _MAX_NAME or not name.isprintable() or not name.isascii():
        shown = ascii(name[:_MAX_NAME])
        advice = "Take it from kafka.value in transform.py if you need it"
        doubts.append(left_out(shown, f"its name is not 1 to {_MAX_NAME} printable ASCII characters", advice))
        return None
    texts = [value for value in values if isinstance(value, str)]
    if texts and len(texts) == len(values):
        kind = text_type(name, texts, doubts)
    elif texts and any(map(is_number, values)) and all(is_number(v) or as_decimal(v) is not None for v in values):
        kind = decimal_type(name, values, doubts, seen="numbers, and text that holds numbers")
    else:
        return _any(name, values, doubts, depth=0)
    if len(values) < _FEW and kind != STRING:
        seen = f"only {counted(len(values), 'value')}"
        doubts.append(Doubt(name, seen, str(kind), f"Declare {name}: string if other text may follow"))
    return kind


def _any(path: str, values: Sequence[object], doubts: list[Doubt], *, depth: int) -> ColumnType | None:
    """Return the type of values of any kind, at any depth; None if no type can be inferred."""
    kinds: dict[str, list[object]] = {}
    for value in values:
        kinds.setdefault(_kind(value), []).append(value)
    twice = kinds.pop("twice", None)
    if not kinds or depth > _MAX_DEPTH:
        seen = "nested too deep" if kinds else "twice in its object" if twice else "only null, or an empty array"
        doubts.append(left_out(path, seen, "Declare it when you know its type"))
        return None
    kind, found = max(kinds.items(), key=lambda item: len(item[1]))
    if len(kinds) > 1:
        counts = ", ".join(f"{counted(len(some), name)}" for name, some in kinds.items())
        advice = (
            "The other records are rejected: mend the producer, or leave the field out and take it from kafka.value"
        )
        doubts.append(Doubt(path, f"values of several types: {counts}", kind, advice))
    match kind:
        case "boolean":
            return SimpleType("boolean")
        case "string":
            return STRING
        case "number":
            return _number(path, found, doubts)
        case "array":
            return _array(path, found, doubts, depth=depth)
        case _:
            return _struct(path, found, doubts, depth=depth)


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


def _array(path: str, arrays: Sequence[object], doubts: list[Doubt], *, depth: int) -> ColumnType | None:
    inner = [value for array in arrays if isinstance(array, list) for value in array if value is not None]
    element = _any(f"{path}[]", inner, doubts, depth=depth + 1)
    return ArrayType(element=element) if element else None


def _struct(path: str, objects: Sequence[object], doubts: list[Doubt], *, depth: int) -> ColumnType | None:
    fields = _fields((one for one in objects if isinstance(one, dict)), path, doubts)
    types = []
    for name, values in fields.items():
        if not _FIELD_NAME.fullmatch(name) or len(name) > _MAX_NAME:
            advice = "Take it from kafka.value in transform.py if you need it"
            doubts.append(left_out(f"{path}.{name[:_MAX_NAME]!a}", "a struct has no field of this name", advice))
        elif kind := _any(f"{path}.{name}", values, doubts, depth=depth + 1):
            types.append((name, kind))
    if not types:
        doubts.append(
            left_out(path, "objects without a field that can be declared", "Declare it when you know its fields")
        )
        return None
    return StructType(fields=tuple(types))


def _kind(value: object) -> str:
    if value is TWICE:
        return "twice"
    if isinstance(value, bool):
        return "boolean"
    if is_number(value):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
