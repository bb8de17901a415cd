"""The same records in JSON, Avro and Protobuf, with one schema and with ten of a registry, clean and with a share of bad ones; and as changes."""

import json
import statistics
from collections.abc import Callable, Mapping
from datetime import datetime
from io import BytesIO
from typing import Any

import fastavro

from benchmarks import rivals
from benchmarks.scene import PARTITIONS, RECORDS, Scene, in_turns, table
from protobuf_records import message_class
from servers.schema_registry import SchemaRegistry
from tideline import settings
from tideline.declaration import pipelines

TITLE = "Formats"
_MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
_AVRO = {"string": "string", "bigint": "long", "timestamp": _MOMENT}
_PROTOBUF = {"string": "string", "bigint": "int64", "timestamp": "google.protobuf.Timestamp"}
_KINDS = {"avro": ("impression.avsc", ""), "protobuf": ("impression.proto", "\n    message: Impression")}
"""The file with the schema, and more of the section, by format."""
_IDS = 10
_BAD = 7
Encode = Callable[[dict[str, Any]], bytes]


def measure(scene: Scene) -> list[str]:
    """Return the section's lines."""
    assert scene.spark
    ways, asked = {"json": _way(scene, "json", None, "json", "")}, {"json": ("json", "")}
    with SchemaRegistry() as registry:
        for kind in _KINDS:
            for number in range(_IDS):
                registry.register(f"{kind}-value", schema(kind, number), kind=kind.upper())
        for place, kind in enumerate(_KINDS):
            first = 1 + place * _IDS
            plain, registered = _encoder(kind, 0), _registered(kind, first, 1)
            one = f"{kind}, one schema of a registry"
            spoils: Mapping[str, tuple[rivals.Spoil, str, tuple[str, str]]] = {
                kind: (_each(plain), "file", ("json", "at most 1.0 times JSON")),
                one: (registered, registry.url, ("json", "at most 1.0 times JSON")),
                f"{kind}, {_IDS} schemas": (
                    _registered(kind, first, _IDS),
                    registry.url,
                    (one, "at most 1.2 times one schema"),
                ),
                f"{kind}, {_BAD} % cut off": (
                    _cut_off(registered),
                    registry.url,
                    (one, "at most 1.5 times one schema"),
                ),
            }
            for name, (spoil, where, of) in spoils.items():
                ways[name] = _way(scene, kind, spoil, where, f"_{len(ways)}")
                asked[name] = of
        for with_schema in (False, True):
            name = f"debezium, {'a schema in each record' if with_schema else 'without schemas'}"
            ways[name] = _way(scene, "debezium", _changes(with_schema=with_schema), "json", f"_{len(ways)}")
            asked[name] = ("json", "at most 1.67 times JSON")
        seconds = in_turns(ways, rounds=5)
    rows = []
    for name, found in seconds.items():
        base, bound = asked[name]
        ratio = statistics.median(one / other for one, other in zip(found, seconds[base], strict=True))
        rows.append((name, f"{statistics.median(found):.2f}", f"{ratio:.2f} times {base}" if bound else "", bound))
    return [
        f"The write task over {RECORDS:,} records in {PARTITIONS} partitions, claim to published, `local[2]`, in turn.",
        "Each schema of the registry has one field more than the one before it.",
        "",
        *table(("records in", "median, s", "in the same round", "asked"), rows),
    ]


def _way(scene: Scene, kind: str, spoil: rivals.Spoil | None, where: str, suffix: str) -> rivals.Tideline:
    topic = scene.topic(RECORDS, PARTITIONS, spoil=spoil)
    return rivals.Tideline(settings.ledger_url(), _declared(scene, f"format_{kind}{suffix}", topic, kind, where))


def schema(kind: str, more: int) -> str:
    """Return the schema with so many fields behind those that all have."""
    names = [f"more_{number}" for number in range(more)]
    if kind == "protobuf":
        fields = [f"{_PROTOBUF[column]} {name}" for name, column in rivals.FIELDS.items()]
        fields += [f"optional string {name}" for name in names]
        body = " ".join(f"{field} = {number};" for number, field in enumerate(fields, 1))
        return f'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message Impression {{ {body} }}'
    columns: list[dict[str, Any]] = [{"name": name, "type": _AVRO[column]} for name, column in rivals.FIELDS.items()]
    columns += [{"name": name, "type": ["null", "string"]} for name in names]
    return json.dumps({"type": "record", "name": "Impression", "fields": columns})


def _encoder(kind: str, more: int) -> Encode:
    absent = {f"more_{number}": "more" for number in range(more)}
    if kind == "protobuf":
        made: Any = message_class(schema(kind, more), "Impression")

        def encoded(value: dict[str, Any]) -> bytes:
            shown = datetime.fromisoformat(value["shown_at"])
            at = {"seconds": int(shown.timestamp()), "nanos": shown.microsecond * 1_000}
            data: bytes = made(**(value | absent | {"shown_at": at})).SerializeToString()
            return data

        return encoded
    parsed = fastavro.parse_schema(json.loads(schema(kind, more)))

    def encode(value: dict[str, Any]) -> bytes:
        out = BytesIO()
        moment = datetime.fromisoformat(value["shown_at"])
        fastavro.schemaless_writer(out, parsed, value | absent | {"shown_at": moment})
        return out.getvalue()

    return encode


def _each(encode: Encode) -> rivals.Spoil:
    return lambda _, value: encode(value)


def _registered(kind: str, first: int, n_schemas: int) -> rivals.Spoil:
    encoders = [_encoder(kind, more) for more in range(n_schemas)]
    head = b"\0" if kind == "protobuf" else b""

    def encode(number: int, value: dict[str, Any]) -> bytes:
        which = number * 7919 % n_schemas
        return b"\0" + (which + first).to_bytes(4, "big") + head + encoders[which](value)

    return encode


def _changes(*, with_schema: bool) -> rivals.Spoil:
    """Return what writes each record as the insertion of a row, as the converter of Debezium's connector does."""
    kinds = {
        "string": ("string", None),
        "bigint": ("int64", None),
        "timestamp": ("int64", "io.debezium.time.MicroTimestamp"),
    }
    fields = [
        {"type": kinds[of][0], "name": kinds[of][1], "optional": True, "field": name}
        for name, of in rivals.FIELDS.items()
    ]
    row = {"type": "struct", "fields": fields, "optional": True, "name": "shop.impressions.Value"}
    schema = {"type": "struct", "fields": [{**row, "field": part} for part in ("before", "after")], "name": "Envelope"}

    def encode(number: int, value: dict[str, Any]) -> bytes:
        shown = int(datetime.fromisoformat(value["shown_at"]).timestamp() * 1_000_000)
        after = value | {"shown_at": shown} if with_schema else value
        source = {
            "version": "3.7.0.Final",
            "connector": "postgresql",
            "db": "shop",
            "table": "impressions",
            "lsn": number,
        }
        change = {"before": None, "after": after, "source": source, "op": "c", "ts_ms": 1_760_000_000_000}
        return json.dumps(
            {"schema": schema, "payload": change} if with_schema else change, separators=(",", ":")
        ).encode()

    return encode


def _cut_off(encode: rivals.Spoil) -> rivals.Spoil:
    # Spread evenly: 7919 and 100 have no common divisor.
    return lambda number, value: encode(number, value)[: -1 if number * 7919 % 100 < _BAD else None]


def _declared(scene: Scene, name: str, topic: str, kind: str, where: str) -> pipelines.Pipeline:
    """Declare the pipeline of JSON, or of a format with a schema file or with the registry at an address."""
    folder = scene.folder / "pipelines" / name
    rivals.declare(folder, topic)
    text = (folder / "pipeline.yaml").read_text()
    file, more = _KINDS.get(kind, ("", ""))
    if kind == "debezium":
        text = text.replace("format: json", "format: debezium")
    elif where == "file":
        (folder / file).write_text(schema(kind, 0))
        text = text.replace("format: json", f"format: {kind}\n    schema_file: {file}{more}")
    elif where != "json":
        registry = f'  registry: {{urls: ["{where}"]}}\n  value:\n'
        framed = f"format: {kind}\n    frame: confluent{more}"
        text = text.replace("  value:\n", registry).replace("format: json", framed)
    (folder / "pipeline.yaml").write_text(text)
    return pipelines.load(folder)
