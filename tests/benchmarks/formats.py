"""The same records in JSON and in Avro, with one schema and with ten of a registry, clean and with a share of bad ones."""

import json
import statistics
from collections.abc import Callable, Mapping
from datetime import datetime
from io import BytesIO
from typing import Any

import fastavro

from benchmarks import rivals
from benchmarks.scene import PARTITIONS, RECORDS, Scene, in_turns, table
from servers.schema_registry import SchemaRegistry
from tideline import settings
from tideline.declaration import pipelines

TITLE = "Formats"
_MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
_TYPES = {"string": "string", "bigint": "long", "timestamp": _MOMENT}
_IDS = 10
_BAD = 7
_ASKED = {
    "json": "",
    "avro": "at most 1.0 times JSON",
    "avro, one schema of a registry": "at most 1.0 times JSON",
    f"avro, {_IDS} schemas of a registry": "at most 1.2 times one schema",
    f"avro, {_BAD} % cut off": "at most 1.5 times one schema",
}


def measure(scene: Scene) -> list[str]:
    """Return the section's lines."""
    assert scene.spark
    with SchemaRegistry() as registry:
        for number in range(_IDS):
            registry.register("bench-value", _schema(number))
        framed, registered = _encoder(0), _registered(1)
        spoils: Mapping[str, tuple[rivals.Spoil | None, str]] = {
            "json": (None, "json"),
            "avro": (lambda _, value: framed(value), "file"),
            "avro, one schema of a registry": (registered, registry.url),
            f"avro, {_IDS} schemas of a registry": (_registered(_IDS), registry.url),
            f"avro, {_BAD} % cut off": (_cut_off(registered), registry.url),
        }
        ways = {}
        for number, (name, (spoil, where)) in enumerate(spoils.items()):
            pipeline = _declared(scene, f"format_{number}", scene.topic(RECORDS, PARTITIONS, spoil=spoil), where)
            ways[name] = rivals.Tideline(settings.ledger_url(), pipeline)
        seconds = in_turns(ways, rounds=5)
    names = [*_ASKED]
    bases = {names[3]: names[2], names[4]: names[2]}
    rows = []
    for name, found in seconds.items():
        base = seconds[bases.get(name, "json")]
        ratio = statistics.median(one / other for one, other in zip(found, base, strict=True))
        times = f"{ratio:.2f} times {bases.get(name, 'json')}"
        rows.append((name, f"{statistics.median(found):.2f}", times if name != "json" else "", _ASKED[name]))
    return [
        f"The write task over {RECORDS:,} records in {PARTITIONS} partitions, claim to published, `local[2]`, in turn.",
        "Each schema of the registry has one field more than the one before it.",
        "",
        *table(("records in", "median, s", "in the same round", "asked"), rows),
    ]


def _schema(more: int) -> dict[str, Any]:
    """Return the schema with so many fields behind those that all have."""
    fields = [{"name": name, "type": _TYPES[kind]} for name, kind in rivals.FIELDS.items()]
    return {
        "type": "record",
        "name": "Impression",
        "fields": [*fields, *({"name": f"more_{number}", "type": ["null", "string"]} for number in range(more))],
    }


def _encoder(more: int) -> Callable[[dict[str, Any]], bytes]:
    schema = fastavro.parse_schema(_schema(more))
    absent = {f"more_{number}": "more" for number in range(more)}

    def encode(value: dict[str, Any]) -> bytes:
        out = BytesIO()
        moment = datetime.fromisoformat(value["shown_at"])
        fastavro.schemaless_writer(out, schema, value | absent | {"shown_at": moment})
        return out.getvalue()

    return encode


def _registered(n_schemas: int) -> rivals.Spoil:
    encoders = [_encoder(more) for more in range(n_schemas)]

    def encode(number: int, value: dict[str, Any]) -> bytes:
        which = number * 7919 % n_schemas
        return b"\0" + (which + 1).to_bytes(4, "big") + encoders[which](value)

    return encode


def _cut_off(encode: rivals.Spoil) -> rivals.Spoil:
    # Spread evenly: 7919 and 100 have no common divisor.
    return lambda number, value: encode(number, value)[: -1 if number * 7919 % 100 < _BAD else None]


def _declared(scene: Scene, name: str, topic: str, where: str) -> pipelines.Pipeline:
    """Declare the pipeline of JSON, or of Avro with a schema file or with the registry at an address."""
    folder = scene.folder / "pipelines" / name
    rivals.declare(folder, topic)
    text = (folder / "pipeline.yaml").read_text()
    if where == "file":
        (folder / "impression.avsc").write_text(json.dumps(_schema(0)))
        text = text.replace("format: json", "format: avro\n    schema_file: impression.avsc")
    elif where != "json":
        registry = f'  registry: {{urls: ["{where}"]}}\n  value:\n'
        text = text.replace("  value:\n", registry).replace("format: json", "format: avro\n    frame: confluent")
    (folder / "pipeline.yaml").write_text(text)
    return pipelines.load(folder)
