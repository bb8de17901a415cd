"""The values of the sample that a new pipeline's test reads: real records of the topic, or invented ones. Pure functions."""

import json
import re
from base64 import b64encode
from typing import Any

from tideline.authoring.survey import SurveyedField, TopicSurvey
from tideline.domain.columns import WHOLE, ArrayType, ColumnType, DecimalType, SimpleType

_COUNT = 5
_LONG = 10_000
"""Values with more bytes than this are not taken unless there are no others."""
_2026_MS = 1_767_225_600_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}
_INVENTED: dict[str, Any] = {
    "string": lambda number: f"text {number}",
    "boolean": lambda number: number % 2 == 0,
    "double": lambda number: number + 0.5,
    "timestamp": lambda number: f"2026-01-01T00:00:0{number}Z",
    "date": lambda number: f"2026-01-0{number}",
    WHOLE: lambda number: {"part": number},
}


def real(seen: TopicSurvey) -> list[bytes]:
    """Return a few values of different shapes that can be decoded, each on one line. The newest come first. Values in a frame are in base64."""
    if seen.schemas:
        return [b64encode(value) for value in dict.fromkeys(reversed(seen.good))][:_COUNT]
    lines = [re.sub(rb"[\r\n]+", b" ", value) for value in reversed(seen.good)]
    if seen.value_format == "bytes":  # a line feed in bytes may not become a space
        lines = [value for value in reversed(seen.good) if not re.search(rb"[\r\n]", value)]
    lines = [line for line in lines if len(line) <= _LONG] or lines[:1]
    shapes: dict[Any, bytes] = {}
    for line in lines:
        shapes.setdefault(_shape(line) if seen.value_format == "json" else line, line)
    chosen = list(shapes.values())[:_COUNT]
    return [*chosen, *(line for line in dict.fromkeys(lines) if line not in chosen)][:_COUNT]


def invented(seen: TopicSurvey) -> list[bytes]:
    """Return a few invented values that can be decoded."""
    numbers = range(1, _COUNT + 1)
    if seen.value_format != "json":
        return [b"value %d" % number for number in numbers]
    return [json.dumps({field.name: _field(field, number) for field in seen.fields}).encode() for number in numbers]


def _shape(line: bytes) -> frozenset[tuple[str, str]]:
    return frozenset((name, type(value).__name__) for name, value in json.loads(line).items())


def _field(field: SurveyedField, number: int) -> Any:
    if field.unit:
        return (_2026_MS // 1_000 + number) * _PER_SECOND[field.unit]
    return f"00000000-0000-4000-8000-{number:012}" if field.is_uuid else _value(field.kind, number)


def _value(kind: ColumnType, number: int) -> Any:
    match kind:
        case SimpleType(name=name):
            return _INVENTED[name](number) if name in _INVENTED else number
        case DecimalType(scale=scale):
            return f"0.{number}".ljust(2 + scale, "0") if scale else number
        case ArrayType(element=element):
            return [_value(element, number)]
        case _:
            return {name: _value(inner, number) for name, inner in kind.fields}
