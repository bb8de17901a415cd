"""The values of the sample that a new pipeline's test reads: real records of the topic, or invented ones. Pure functions."""

import json
import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from tideline.authoring.survey import TopicSurvey
from tideline.authoring.surveyed_changes import SurveyedChanges
from tideline.authoring.surveyed_fields import SurveyedField
from tideline.domain.columns import WHOLE, ArrayType, ColumnType, DecimalType, SimpleType, parse_type

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
    """Return a few records of different shapes that become rows, each on one line as `tideline test` reads it. The newest come first.

    Those of changes have their keys, and a tab, before them. What is in a frame is in base64.
    """
    newest = list(dict.fromkeys(reversed(seen.good)))
    if seen.changes:
        as_line = b64encode if seen.schemas else _on_one_line
        return [b"\t".join(as_line(part or b"") for part in one) for one in newest if isinstance(one, tuple)][:_COUNT]
    values = [one for one in newest if isinstance(one, bytes)]
    if seen.schemas:
        return [b64encode(value) for value in values][:_COUNT]
    lines = [_on_one_line(value) for value in values]
    if seen.value_format == "bytes":  # a line feed in bytes may not become a space
        lines = [value for value in values if not re.search(rb"[\r\n]", value)]
    lines = [line for line in lines if len(line) <= _LONG] or lines[:1]
    shapes: dict[Any, bytes] = {}
    for line in lines:
        shapes.setdefault(_shape(line) if seen.value_format == "json" else line, line)
    chosen = list(shapes.values())[:_COUNT]
    return [*chosen, *(line for line in dict.fromkeys(lines) if line not in chosen)][:_COUNT]


def invented(seen: TopicSurvey) -> list[bytes]:
    """Return a few invented records that become rows, as above."""
    numbers = range(1, _COUNT + 1)
    if seen.changes:
        return [b"\t".join(_change(seen, seen.changes, number)) for number in numbers]
    if seen.value_format != "json":
        return [b"value %d" % number for number in numbers]
    return [json.dumps(_fields(seen.fields, number)).encode() for number in numbers]


def _change(seen: TopicSurvey, changes: SurveyedChanges, number: int) -> tuple[bytes, bytes]:
    """Return the key and the value of a change without the schemas of Kafka Connect."""
    key, row = _fields(changes.key, number), _fields((*changes.key, *seen.fields), number)
    source = {path.removeprefix("source."): _value(parse_type(kind), number) for path, kind in changes.order.items()}
    value = {"op": "c", "before": None, "after": row, "source": source}
    return json.dumps(key).encode(), json.dumps(value).encode()


def _on_one_line(record: bytes) -> bytes:
    return re.sub(rb"[\r\n]+", b" ", record)


def _shape(line: bytes) -> frozenset[tuple[str, str]]:
    return frozenset((name, type(value).__name__) for name, value in json.loads(line).items())


def _fields(fields: Iterable[SurveyedField], number: int) -> dict[str, Any]:
    return {field.name: _field(field, number) for field in fields}


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
