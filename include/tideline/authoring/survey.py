"""Look at records of a topic and describe them: format, keys, headers, fields and their types. Pure functions.

The description names what the records do not decide (`Doubt`). It proves itself: every record is decoded with the
columns that were inferred, by the decoder of the Spark job, and those that it rejects are counted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tideline.authoring import surveyed_changes, surveyed_fields
from tideline.authoring.doubts import Doubt
from tideline.authoring.registered_values import RegisteredValues, described
from tideline.authoring.sample import KeyAndValue
from tideline.authoring.surveyed_changes import SurveyedChanges
from tideline.authoring.surveyed_fields import SurveyedField
from tideline.declaration.source import Value
from tideline.domain.columns import SimpleType
from tideline.domain.facts import NewestRecords, RecordContent
from tideline.domain.schemas import NoSchemas, Schema, Schemas
from tideline.errors import FatalError
from tideline.formats import kinds
from tideline.formats.confluent_frame import HEAD
from tideline.formats.format import Decoded, RawRecords
from tideline.formats.json_validation import syntax_fault

_REJECTED = "they become rejects, with this reason"
_MANY = 100
"""From so many records on the shares are worth something."""
_REASONS = 3
"""The most reasons of rejects that are named."""
_UNREGISTERED = RegisteredValues(schemas={}, kind="", fields=(), doubts=())


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSurvey:
    """What the records of a topic look like."""

    topic: str
    n_records: int
    n_partitions: int
    value_format: str
    """`json`, `avro`, `protobuf`, `debezium`, `text` or `bytes`."""
    message: str | None
    """The message that the values are; only for `protobuf`."""
    fields: tuple[SurveyedField, ...]
    """The columns to declare for values; none for `text` and `bytes`."""
    changes: SurveyedChanges | None
    """What else is to be declared for changes of a table; only for `debezium`."""
    schemas: Mapping[int, Schema]
    """The schemas of a registry that the records name; empty if they have no frame."""
    keys: str
    """The form of the keys, for people."""
    headers: tuple[str, ...]
    """The names of headers, the most common first."""
    is_gappy: bool
    """Whether offsets without a record were seen."""
    doubts: tuple[Doubt, ...]
    good: tuple[bytes | KeyAndValue, ...]
    """The values that become rows, with the keys of changes, in the order of the records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Values:
    """What was found in the values of records."""

    format: str
    fields: Sequence[SurveyedField] = ()
    doubts: Sequence[Doubt] = ()
    found: RegisteredValues = _UNREGISTERED
    """What the schemas of a registry say that they name."""
    changes: SurveyedChanges | None = None


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
    valued = [record for record in records if record.value is not None]
    seen = _plain(records) if schemas is None else _registered(topic, records, schemas)
    decoded = _decoded(seen, valued, schemas)
    fields, doubts = seen.fields, [*_about_few(records), *_about_tombstones(records, seen), *seen.doubts]
    if seen.found.fields:
        fields, moments = surveyed_fields.counted(fields, decoded, [one.timestamp_ms for one in valued])
        doubts += moments
    good = [valued[position] for position in decoded.kept.to_pylist()]
    return TopicSurvey(
        topic=topic,
        n_records=len(records),
        n_partitions=len({record.partition for record in records}),
        value_format=seen.format,
        message=seen.found.message,
        fields=tuple(fields),
        changes=seen.changes,
        schemas={**seen.found.schemas, **(seen.changes.schemas if seen.changes else {})},
        keys=_keys(records),
        headers=tuple(name for name, _ in Counter(n for record in records for n, _ in record.headers).most_common()),
        is_gappy=topic in newest.gappy,
        doubts=(*doubts, *_about_rejects(decoded, len(valued))),
        good=tuple((one.key, one.value) if seen.changes else one.value for one in good if one.value is not None),
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
        changes=None,
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


def _about_tombstones(records: Sequence[RecordContent], seen: _Values) -> list[Doubt]:
    n_tombstones = sum(record.value is None for record in records)
    if not n_tombstones or seen.changes:  # those of changes delete
        return []
    found = f"{n_tombstones:,} of {len(records):,} records are tombstones, which hold no value"
    advice = "source.tombstones can keep them, or let them delete rows"
    return [Doubt("records", found, "they become rejects", advice)]


def _plain(records: Sequence[RecordContent]) -> _Values:
    """Return the format that fits the most records, the columns of changes and of JSON objects, and what is doubtful."""
    values = [record.value for record in records if record.value is not None]
    n_objects = sum(syntax_fault(value) is None for value in values)
    if n_objects and 2 * n_objects >= len(values):
        changes, about_changes = surveyed_changes.in_json(records)
        if changes:
            return _Values(format="debezium", fields=changes.rows, doubts=about_changes, changes=changes)
        fields, doubts = _of_objects([(record.value, record.timestamp_ms) for record in records])
        if fields:
            return _Values(format="json", fields=fields, doubts=[*about_changes, *doubts])
        advice = "Declare format json with columns when you know the fields"
        doubts = [Doubt("format", "JSON objects without a field that can be a column", "text", advice)]
        return _Values(format="text", doubts=doubts)
    n_texts = sum(map(_is_text, values))
    if n_texts and 2 * n_texts >= len(values):
        return _Values(format="text")
    advice = "Decode them in transform.py: its column `value` holds the bytes"
    if any(value[:1] == b"\0" for value in values):
        advice += (
            ". Values that begin with byte 0 may be those of a schema registry: run again with --registry urls=..."
        )
    doubts = [Doubt("format", "values that are neither JSON objects nor text", "bytes", advice)]
    return _Values(format="bytes", doubts=doubts)


def _of_objects(values: Iterable[tuple[bytes | None, int | None]]) -> tuple[list[SurveyedField], list[Doubt]]:
    """Return the fields of those values that are JSON objects, each with the timestamp of its record."""
    parsed = [(surveyed_fields.parsed_object(value), timestamp) for value, timestamp in values]
    return surveyed_fields.of_objects([(found, timestamp) for found, timestamp in parsed if found is not None])


def _registered(topic: str, records: Sequence[RecordContent], schemas: Schemas) -> _Values:
    """Return the format of values in the frame of a registry, their columns, what is doubtful, and what the schemas say."""
    found = described([record.value for record in records if record.value is not None], schemas)
    doubts: list[Doubt] = []
    if found.kind == "AVRO":
        changes, doubts = surveyed_changes.in_avro(records, found, schemas)
        if changes:
            # What was said of the fields of the envelope is not about columns.
            about = [one for one in found.doubts if one.subject == "records"]
            return _Values(
                format="debezium", fields=changes.rows, doubts=[*about, *doubts], found=found, changes=changes
            )
    if found.kind == "JSON":
        fields, doubts = _of_objects([(one.value and one.value[HEAD:], one.timestamp_ms) for one in records])
    else:
        fields = [SurveyedField(name=name, kind=kind, is_uuid=is_uuid) for name, kind, is_uuid in found.fields]
    if not fields:
        said = f"schemas of the kind {found.kind}" if found.kind else "none that names a schema of the registry"
        raise FatalError(
            f"topic {topic}: expected records whose schema has fields for columns, in Avro, Protobuf or JSON, found {said}",
            next_step="leave out --registry to write a pipeline of bytes",
            entry="new-pipeline",
        )
    return _Values(format=found.kind.lower(), fields=fields, doubts=[*found.doubts, *doubts], found=found)


def _decoded(seen: _Values, valued: Sequence[RecordContent], schemas: Schemas | None) -> Decoded:
    """Decode all values with the columns of the fields."""
    given = pa.array([record.value for record in valued], pa.binary())
    section = Value.model_validate(
        {
            "format": seen.format,
            "message": seen.found.message,
            "columns": {field.name: str(field.kind) for field in seen.fields},
            "envelope": seen.changes.order if seen.changes else {},
            "frame": "none" if schemas is None else "confluent",
        }
    )
    decode = kinds.declared(section, Path()).decoder(schemas or NoSchemas())
    return decode(RawRecords(part="value", keys=pa.nulls(len(given), pa.binary()), values=given))


def _about_rejects(decoded: Decoded, n_values: int) -> list[Doubt]:
    """Return a doubt for each of the common reasons of rejects."""
    reasons = Counter(decoded.rejected.values())
    doubts = [
        Doubt(
            "records",
            f"{count:,} of {n_values:,} cannot be decoded: {reason}",
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
    return doubts


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
