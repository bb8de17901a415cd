"""Describe changes of Debezium: the columns of the table's rows and of its key, and what tells which change is newer. Pure functions."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tideline.authoring.doubts import Doubt, left_out
from tideline.authoring.inference import unusable_name
from tideline.authoring.registered_values import RegisteredField, RegisteredValues, described, fields_of_record
from tideline.authoring.surveyed_fields import Object, SurveyedField, Timed, of_objects, parsed_object
from tideline.domain.columns import MAX_PRECISION, WHOLE, ArrayType, ColumnType, DecimalType, SimpleType
from tideline.domain.facts import RecordContent
from tideline.domain.schemas import Schema, Schemas
from tideline.formats.avro.schema import SchemaError, parsed, record_of
from tideline.formats.debezium.changes import LEAVES_A_ROW
from tideline.formats.debezium.connect_values import ConnectValueError, fields_of

_ORDERS: tuple[Mapping[str, str], ...] = (
    {"source.lsn": "bigint"},
    {"source.file": "string", "source.pos": "bigint", "source.row": "int"},
    {"source.commit_lsn": "string", "source.change_lsn": "string", "source.event_serial_no": "bigint"},
)
"""What tells which change is newer, by the envelopes of Postgres, MySQL (and MariaDB) and SQL Server."""
_KINDS = {
    "boolean": "boolean",
    "int8": "smallint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "string",
}
"""By the type of a schema of Connect. Bytes are text in base64."""
_NAMES = {
    "date": ("org.apache.kafka.connect.data.Date", "io.debezium.time.Date", "io.debezium.time.IsoDate"),
    "timestamp": (
        "org.apache.kafka.connect.data.Timestamp",
        "io.debezium.time.Timestamp",
        "io.debezium.time.MicroTimestamp",
        "io.debezium.time.NanoTimestamp",
        "io.debezium.time.ZonedTimestamp",
    ),
    "string": (
        "org.apache.kafka.connect.data.Time",
        "io.debezium.time.Time",
        "io.debezium.time.MicroTime",
        "io.debezium.time.NanoTime",
        "io.debezium.data.VariableScaleDecimal",
    ),
    WHOLE: ("io.debezium.data.Json",),
}
_NAMED = {name: kind for kind, names in _NAMES.items() for name in names}
_TAKEN, _RENAME = "the change's place in the log stands under this name", "Take it from kafka.value in transform.py"
_DECIMAL, _UUID = "org.apache.kafka.connect.data.Decimal", "io.debezium.data.Uuid"


_KEY_NAME = re.compile(r"[A-Za-z_]\w{0,62}", re.ASCII)
_AS_JSON = "the envelope of each change as a row"


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedChanges:
    """What the changes of a table look like."""

    key: tuple[SurveyedField, ...]
    """The columns of its key."""
    rows: tuple[SurveyedField, ...]
    """The columns of its rows that are not of the key."""
    order: Mapping[str, str]
    """The types by paths in the envelope of what tells which change is newer; empty if nothing is known to."""
    schemas: Mapping[int, Schema] = field(default_factory=dict)
    """The schemas of a registry that keys name."""


_Described = tuple[list[SurveyedField], list[Doubt]]
"""Fields, and what is doubtful about them."""


class _Change(NamedTuple):
    """A record that holds a change."""

    key: Object | None
    key_schema: Mapping[str, Any] | None
    payload: Object
    schema: Mapping[str, Any] | None
    timestamp_ms: int | None

    @property
    def row(self) -> Object | None:
        """Return the row that the change leaves."""
        after = self.payload["after"]
        return after if isinstance(after, Mapping) and self.payload["op"] in LEAVES_A_ROW else None


def in_json(records: Sequence[RecordContent]) -> tuple[SurveyedChanges | None, list[Doubt]]:
    """Return what changes in JSON look like, and what is doubtful; None if most values are no changes, or they cannot be told by their keys."""
    changes = [one for record in records if (one := _change(record)) is not None]
    rows = [one for one in changes if one.row is not None]
    if not rows or 2 * len(changes) < sum(record.value is not None for record in records):
        return None, []
    keyed = [one for one in changes if one.key]
    if len(keyed) < len(changes):
        return None, [_unkeyed()]
    last = rows[-1]
    if unusable := _about_key(last.key or ()):
        return None, [unusable]
    if last.row and not last.row.keys() - (last.key or {}).keys():
        return None, [_only_keys()]
    key = _fields(last.key_schema, [(one.key or {}, None) for one in changes])
    found = _fields(_within(last.schema), [(one.row or {}, one.timestamp_ms) for one in rows])
    source = last.payload["source"]
    changed, doubts = _surveyed(key, found, source if isinstance(source, Mapping) else {})
    return changed, [*([] if last.schema else [_without_schema()]), *doubts]


def in_avro(
    records: Sequence[RecordContent], found: RegisteredValues, schemas: Schemas
) -> tuple[SurveyedChanges | None, list[Doubt]]:
    """Return what changes in the frame of a registry look like, and what is doubtful; None as above.

    Args:
        records: The records.
        found: What the schemas say that values name.
        schemas: Where the schemas of keys are found.

    Raises:
        TidelineError: As `Schemas.find`.
    """
    schema = found.schemas[max(found.schemas)]
    try:
        parts = dict(parsed(schema.text, [one.text for one in schema.references]).fields)
    except SchemaError:
        return None, []
    row, source = record_of(parts.get("after")), record_of(parts.get("source"))
    if row is None or source is None or "op" not in parts:
        return None, []
    keys = [record.key for record in records if record.key is not None]
    of_keys = described(keys, schemas, "key")
    if len(keys) < len(records) or of_keys.kind != "AVRO" or not of_keys.fields:
        return None, [_unkeyed()]
    fields, doubts = fields_of_record(row)
    if unusable := _about_key(one.name for one in of_keys.fields):
        return None, [unusable]
    if not {one.name for one in fields} - {one.name for one in of_keys.fields}:
        return None, [_only_keys()]
    key = _as_surveyed(of_keys.fields), list(of_keys.doubts)
    return _surveyed(key, (_as_surveyed(fields), doubts), dict(source.fields), of_keys.schemas)


def _as_surveyed(fields: Iterable[RegisteredField]) -> list[SurveyedField]:
    return [SurveyedField(name=name, kind=kind, is_uuid=is_uuid) for name, kind, is_uuid in fields]


def _surveyed(
    key: _Described, rows: _Described, source: Collection[str], schemas: Mapping[int, Schema] | None = None
) -> tuple[SurveyedChanges, list[Doubt]]:
    """Return all that was found. Rows have the columns of the key as well, about which there is nothing more to say."""
    names = {one.name for one in key[0]}
    doubts = [*key[1], *(one for one in rows[1] if one.subject not in names)]
    order = next((one for one in _ORDERS if all(path.removeprefix("source.") in source for path in one)), {})
    if not order:
        advice = "Name what tells it in source.value.envelope and in sink.order"
        doubts.append(Doubt("order", "no place in a log that is known here", "the newest offset wins", advice))
    places = {path.replace(".", "_") for path in order}
    doubts += [left_out(one.name, _TAKEN, _RENAME) for one in rows[0] if one.name in places]
    others = tuple(one for one in rows[0] if one.name not in names | places)
    return SurveyedChanges(key=tuple(key[0]), rows=others, order=order, schemas=schemas or {}), doubts


def _change(record: RecordContent) -> _Change | None:
    """Return the change that a record holds; None if it holds none."""
    value = parsed_object(record.value)
    if value is None:
        return None
    payload, schema = _unwrapped(value)
    if payload is None or not {"op", "after", "source"} <= payload.keys():
        return None
    key = parsed_object(record.key)
    own, key_schema = (None, None) if key is None else _unwrapped(key)
    return _Change(own, key_schema, payload, schema, record.timestamp_ms)


def _unwrapped(value: Object) -> tuple[Object | None, Mapping[str, Any] | None]:
    """Return the payload of an object, and the schema beside it."""
    if value.keys() != {"schema", "payload"}:
        return value, None
    payload, schema = value["payload"], value["schema"]
    return payload if isinstance(payload, Mapping) else None, schema if isinstance(schema, Mapping) else None


def _within(schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the schema of the row in that of a change."""
    try:
        return None if schema is None else fields_of(schema).get("after")
    except ConnectValueError:
        return None


def _fields(schema: Mapping[str, Any] | None, timed: Sequence[Timed]) -> _Described:
    """Return the fields that a schema has, with counts; those of the objects themselves without one."""
    try:
        described_fields = None if schema is None else fields_of(schema)
    except ConnectValueError:
        described_fields = None
    if described_fields is None:
        return of_objects(timed)
    fields, doubts = [], []
    for name, one in described_fields.items():
        if doubt := unusable_name(name):
            doubts.append(doubt)
        elif (kind := column_type(one)) is None:
            doubts.append(left_out(name, f"the schema has {one.get('type')}", "No column type holds it yet"))
        else:
            n_null = sum(name in found and found[name] is None for found, _ in timed)
            n_missing = sum(name not in found for found, _ in timed)
            is_uuid = one.get("name") == _UUID
            fields.append(SurveyedField(name=name, kind=kind, n_null=n_null, n_missing=n_missing, is_uuid=is_uuid))
    return fields, doubts


def column_type(schema: Mapping[str, Any]) -> ColumnType | None:
    """Return the column type that holds each value of a schema of Kafka Connect; None if there is none."""
    kind, name = schema.get("type"), schema.get("name")
    if name == _DECIMAL:
        return _decimal(schema.get("parameters"))
    if name in _NAMED:
        return SimpleType(_NAMED[name])
    if kind == "array":
        items = schema.get("items")
        element = column_type(items) if isinstance(items, Mapping) else None
        return element if element in (None, SimpleType(WHOLE)) else ArrayType(element=element)
    if kind in ("struct", "map"):
        return SimpleType(WHOLE)
    return SimpleType(_KINDS[kind]) if kind in _KINDS else None


def _decimal(parameters: Any) -> ColumnType:
    """Return the type of a decimal. Its precision may be unknown: then text holds each of its values."""
    given = parameters if isinstance(parameters, Mapping) else {}
    scale, precision = (str(given.get(name, "")) for name in ("scale", "connect.decimal.precision"))
    if scale.isdecimal() and precision.isdecimal() and max(int(scale), 1) <= int(precision) <= MAX_PRECISION:
        return DecimalType(precision=int(precision), scale=int(scale))
    return SimpleType("string")


def _about_key(names: Iterable[str]) -> Doubt | None:
    """Return the doubt about the first column of a key that no key of an output can have; None if there is none."""
    for name in names:
        if doubt := unusable_name(name):
            return doubt
        if not _KEY_NAME.fullmatch(name):
            advice = "Rename it with a transformation of the connector, and run again"
            return Doubt(
                ascii(name), "a column of the key with other characters than letters, digits and _", _AS_JSON, advice
            )
    return None


def _unkeyed() -> Doubt:
    return Doubt(
        "format",
        "changes of Debezium, but not each has a key that is an object",
        _AS_JSON,
        "Let the connector write keys (message.key.columns names them for tables without a primary key), and run again",
    )


def _only_keys() -> Doubt:
    return Doubt(
        "format",
        "changes of Debezium, whose rows have no column beside those of the key",
        _AS_JSON,
        "Such a table cannot be followed yet",
    )


def _without_schema() -> Doubt:
    return Doubt(
        "format",
        "changes of Debezium without the schemas of their values: numbers may be dates, and text may be decimals in base64",
        "what the values allow",
        "Set key.converter.schemas.enable and value.converter.schemas.enable in the connector, and run again",
    )
