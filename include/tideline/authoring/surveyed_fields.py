"""Describe the fields of records: their types, what is missing, and which whole numbers can be times. Pure functions."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, DecimalException
from typing import Any

from tideline.authoring.doubts import Doubt
from tideline.authoring.inference import infer
from tideline.domain.columns import ColumnType, SimpleType
from tideline.formats.format import Decoded
from tideline.formats.json_validation import object_from_pairs, syntax_fault

_TEN_YEARS_MS = 10 * 365 * 24 * 3_600_000
_UNITS = {"s": 1_000, "ms": 1, "us": 1 / 1_000}
"""The units of numbers that are times, as milliseconds."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)

Object = Mapping[str, object]
Timed = tuple[Object, int | None]
"""An object, and the timestamp of its record in milliseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedField:
    """A field of the records that becomes a column."""

    name: str
    kind: ColumnType
    n_null: int = 0
    n_missing: int = 0
    unit: str | None = None
    """`s`, `ms` or `us` if its whole numbers seem to be times since 1970."""
    is_uuid: bool = False


def of_objects(timed: Sequence[Timed]) -> tuple[list[SurveyedField], list[Doubt]]:
    """Return the fields of JSON objects, and what is doubtful about them."""
    inferred = infer([found for found, _ in timed])
    fields = [
        SurveyedField(
            name=name,
            kind=kind,
            n_null=sum(name in found and found[name] is None for found, _ in timed),
            n_missing=sum(name not in found for found, _ in timed),
            unit=_unit([(found.get(name), timestamp) for found, timestamp in timed]),
            is_uuid=all(isinstance(v, str) and _UUID.fullmatch(v) for f, _ in timed if (v := f.get(name)) is not None),
        )
        for name, kind in inferred.types.items()
    ]
    return fields, [*inferred.doubts, *_moments(fields)]


def parsed_object(value: bytes | None) -> Object | None:
    """Return the JSON object of a value, or None if it is none, or one that Python cannot hold."""
    if value is None or syntax_fault(value):
        return None
    # Not orjson: it rounds a decimal to a double, and keeps only the last of two equal keys.
    parse = json.JSONDecoder(object_pairs_hook=object_from_pairs, parse_float=Decimal).decode
    try:
        found: dict[str, Any] = parse(value.decode())
    except (RecursionError, DecimalException, ValueError):
        return None
    return found


def counted(
    fields: Iterable[SurveyedField], decoded: Decoded, timestamps: Sequence[int | None]
) -> tuple[list[SurveyedField], list[Doubt]]:
    """Return the fields with what their decoded values show, and a doubt for each whose whole numbers can be times.

    Args:
        fields: The fields, which are columns of the decoded records.
        decoded: The decoded records.
        timestamps: Those of all records, in milliseconds.
    """
    times = [timestamps[position] for position in decoded.kept.to_pylist()]
    found = []
    for field in fields:
        column = decoded.table.column(field.name)
        unit = _unit(zip(column.to_pylist(), times, strict=True)) if field.kind == SimpleType("bigint") else None
        found.append(replace(field, n_null=column.null_count, unit=unit))
    return found, _moments(found)


def _moments(fields: Iterable[SurveyedField]) -> list[Doubt]:
    """Return a doubt for each field whose whole numbers can be times."""
    return [
        Doubt(
            field.name,
            f"whole numbers that can be times since 1970, in {field.unit}",
            "bigint, which transform.py makes a timestamp",
            "If they are no times, delete the field from MOMENTS in transform.py, and make its column in target.sql bigint",
        )
        for field in fields
        if field.unit
    ]


def _unit(values: Iterable[tuple[object, int | None]]) -> str | None:
    """Return the unit in which every value is a time of ten years around its record's timestamp, if there is one."""
    numbers = [(value, timestamp) for value, timestamp in values if value is not None]
    for unit, factor in _UNITS.items():
        if numbers and all(
            type(value) is int and timestamp is not None and abs(value * factor - timestamp) < _TEN_YEARS_MS
            for value, timestamp in numbers
        ):
            return unit
    return None
