"""Look at records of a topic and describe them: format, keys, headers, fields and their types. Pure functions.

The description names what the records do not decide (`Doubt`). It proves itself: every record is decoded with the
columns that were inferred, by the decoder of the Spark job, and those that it rejects are counted.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, DecimalException
from pathlib import Path
from typing import Any

import pyarrow as pa

from tideline.authoring.doubts import Doubt
from tideline.authoring.inference import infer
from tideline.authoring.registered_values import RegisteredValues, described
from tideline.declaration.source import Value
from tideline.domain.columns import ColumnType, SimpleType
from tideline.domain.facts import NewestRecords, RecordContent
from tideline.domain.schemas import NoSchemas, Schema, Schemas
from tideline.errors import FatalError
from tideline.formats import kinds
from tideline.formats.confluent_frame import HEAD
from tideline.formats.format import Decoded, RawRecords
from tideline.formats.json_validation import object_from_pairs, syntax_fault

_REJECTED = "they become rejects, with this reason"
_MANY = 100
"""From so many records on the shares are worth something."""
_REASONS = 3
"""The most reasons of rejects that are named."""
_TEN_YEARS_MS = 10 * 365 * 24 * 3_600_000
_UNITS = {"s": 1_000, "ms": 1, "us": 1 / 1_000}
"""The units of numbers that are times, as milliseconds."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)

Object = Mapping[str, object]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSurvey:
    """What the records of a topic look like."""

    topic: str
    n_records: int
    n_partitions: int
    value_format: str
    """`json`, `avro`, `protobuf`, `text` or `bytes`."""
    message: str | None
    """The message that the values are; only for `protobuf`."""
    fields: tuple[SurveyedField, ...]
    """The columns to declare; only for `json`, `avro` and `protobuf`."""
    schemas: Mapping[int, Schema]
    """The schemas of a registry that the values name; empty if they have no frame."""
    keys: str
    """The form of the keys, for people."""
    headers: tuple[str, ...]
    """The names of headers, the most common first."""
    is_gappy: bool
    """Whether offsets without a record were seen."""
    doubts: tuple[Doubt, ...]
    good: tuple[bytes, ...]
    """The values that can be decoded, in the order of the records."""


def survey(topic: str, newest: NewestRecords, schemas: Schemas | None = None) -> TopicSurvey:
    """Describe records of a topic, at least one.

    Args:
        topic: The topic.
        newest: Its newest records.
        schemas: Where the schemas of values in the frame of a registry are found; None if they have no frame.

    Raises:
        FatalError: No value names a schema that the registry has.
        TidelineError: The registry does not answer, or refuses the login.
    """
    records = newest.records
    doubts = _about_few(records)
    values = [record.value for record in records if record.value is not None]
    if len(values) < len(records):
        seen = f"{len(records) - len(values):,} of {len(records):,} records are tombstones, which hold no value"
        doubts.append(Doubt("records", seen, "they become rejects", "No format of a declaration accepts them"))
    found = RegisteredValues(schemas={}, kind="", fields=(), doubts=())
    if schemas is None:
        value_format, fields, more = _value(records, values)
    else:
        value_format, fields, more, found = _registered(topic, records, values, schemas)
    decoded = _decoded(value_format, found.message, fields, values, schemas)
    good, rejects = _good(values, decoded)
    if found.fields:
        fields, moments = _counted(fields, decoded, [one for one in records if one.value is not None])
        more += moments
    return TopicSurvey(
        topic=topic,
        n_records=len(records),
        n_partitions=len({record.partition for record in records}),
        value_format=value_format,
        message=found.message,
        fields=tuple(fields),
        schemas=found.schemas,
        keys=_keys(records),
        headers=tuple(name for name, _ in Counter(n for record in records for n, _ in record.headers).most_common()),
        is_gappy=topic in newest.gappy,
        doubts=(*doubts, *more, *rejects),
        good=tuple(good),
    )


def unseen(topic: str) -> TopicSurvey:
    """Return the description of a topic without records: one invented field, to be replaced."""
    doubt = Doubt(
        "records", "none was looked at", "one invented field, id", "Replace source.value, and the table's columns"
    )
    return TopicSurvey(
        topic=topic,
        n_records=0,
        n_partitions=0,
        value_format="json",
        message=None,
        fields=(SurveyedField(name="id", kind=SimpleType("string")),),
        schemas={},
        keys="not known",
        headers=(),
        is_gappy=False,
        doubts=(doubt,),
        good=(),
    )


def _about_few(records: Sequence[RecordContent]) -> list[Doubt]:
    if len(records) >= _MANY:
        return []
    advice = "Look again with `tideline sample` when there are more"
    return [Doubt("records", f"there are only {len(records):,} to look at", "what these allow", advice)]


def _value(records: Sequence[RecordContent], values: Sequence[bytes]) -> tuple[str, list[SurveyedField], list[Doubt]]:
    """Return the format that fits the most records, the columns of JSON objects, and what is doubtful."""
    n_objects = sum(syntax_fault(value) is None for value in values)
    if n_objects and 2 * n_objects >= len(values):
        fields, doubts = _fields(records)
        if fields:
            return "json", fields, doubts
        advice = "Declare format json with columns when you know the fields"
        return "text", [], [Doubt("format", "JSON objects without a field that can be a column", "text", advice)]
    n_texts = sum(map(_is_text, values))
    if n_texts and 2 * n_texts >= len(values):
        return "text", [], []
    advice = "Decode them in transform.py: its column `value` holds the bytes"
    if any(value[:1] == b"\0" for value in values):
        advice += (
            ". Values that begin with byte 0 may be those of a schema registry: run again with --registry urls=..."
        )
    return "bytes", [], [Doubt("format", "values that are neither JSON objects nor text", "bytes", advice)]


def _fields(records: Iterable[RecordContent]) -> tuple[list[SurveyedField], list[Doubt]]:
    timed = [(found, record.timestamp_ms) for record in records if (found := _parsed(record.value)) is not None]
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


def _registered(
    topic: str, records: Sequence[RecordContent], values: Sequence[bytes], schemas: Schemas
) -> tuple[str, list[SurveyedField], list[Doubt], RegisteredValues]:
    """Return the format of values in the frame of a registry, their columns, what is doubtful, and what the schemas say."""
    found = described(values, schemas)
    doubts: list[Doubt] = []
    if found.kind == "JSON":
        fields, doubts = _fields([replace(one, value=one.value and one.value[HEAD:]) for one in records])
    else:
        fields = [SurveyedField(name=name, kind=kind, is_uuid=is_uuid) for name, kind, is_uuid in found.fields]
    if not fields:
        said = f"schemas of the kind {found.kind}" if found.kind else "none that names a schema of the registry"
        raise FatalError(
            f"topic {topic}: expected records whose schema has fields for columns, in Avro, Protobuf or JSON, found {said}",
            next_step="leave out --registry to write a pipeline of bytes",
            entry="new-pipeline",
        )
    return found.kind.lower(), fields, [*found.doubts, *doubts], found


def _counted(
    fields: Iterable[SurveyedField], decoded: Decoded, records: Sequence[RecordContent]
) -> tuple[list[SurveyedField], list[Doubt]]:
    """Return the fields with what their decoded values show, and a doubt for each whose whole numbers can be times."""
    times = [records[position].timestamp_ms for position in decoded.kept.to_pylist()]
    counted = []
    for field in fields:
        column = decoded.table.column(field.name)
        unit = _unit(zip(column.to_pylist(), times, strict=True)) if field.kind == SimpleType("bigint") else None
        counted.append(replace(field, n_null=column.null_count, unit=unit))
    return counted, _moments(counted)


def _parsed(value: bytes | None) -> Object | None:
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


def _decoded(
    value_format: str,
    message: str | None,
    fields: Iterable[SurveyedField],
    values: Sequence[bytes],
    schemas: Schemas | None,
) -> Decoded:
    """Decode all values with the columns of the fields."""
    given = pa.array(values, pa.binary())
    columns = {field.name: str(field.kind) for field in fields}
    frame = "none" if schemas is None else "confluent"
    section = Value.model_validate({"format": value_format, "message": message, "columns": columns, "frame": frame})
    decode = kinds.declared(section, Path()).decoder(schemas or NoSchemas())
    return decode(RawRecords(part="value", keys=pa.nulls(len(given), pa.binary()), values=given))


def _good(values: Sequence[bytes], decoded: Decoded) -> tuple[list[bytes], list[Doubt]]:
    """Return the values that can be decoded, and a doubt for each of the common reasons of rejects."""
    reasons = Counter(decoded.rejected.values())
    doubts = [
        Doubt(
            "records",
            f"{count:,} of {len(values):,} cannot be decoded: {reason}",
            _REJECTED,
            "Mend the producer or the columns",
        )
        for reason, count in reasons.most_common(_REASONS)
    ]
    if rest := sum(reasons.values()) - sum(count for _, count in reasons.most_common(_REASONS)):
        doubts.append(
            Doubt(
                "records", f"{rest:,} more cannot be decoded", "they become rejects", "`tideline sample` lists reasons"
            )
        )
    return [values[position] for position in decoded.kept.to_pylist()], doubts


def _keys(records: Sequence[RecordContent]) -> str:
    keys = [record.key for record in records if record.key is not None]
    if not keys:
        return "none"
    form = (
        "JSON objects"
        if all(syntax_fault(key) is None for key in keys)
        else "text"
        if all(map(_is_text, keys))
        else "bytes"
    )
    where = "in all records" if len(keys) == len(records) else f"in {len(keys):,} of {len(records):,} records"
    n_distinct = len(set(keys))
    return f"{form}, {where}, {'all different' if n_distinct == len(keys) else f'{n_distinct:,} different ones'}"


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False
