"""What the contract asks of a format: how to make it, records that it decodes, and a second decoder that says what they hold.

A new format adds a `Case` to `CASES`, and every law of `unit/test_format_contract.py` is tried on it.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pyarrow as pa

import debezium_records
import protobuf_records
from avro_records import framed
from tideline.declaration.source import Value
from tideline.domain.columns import parse_type
from tideline.domain.schemas import NoSchemas, Part, Schema, Schemas
from tideline.formats import kinds
from tideline.formats.avro import schema
from tideline.formats.avro.avro_format import AvroFormat
from tideline.formats.format import Decode, Decoded, Format, RawRecords
from tideline.formats.reader import Reader

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One format with some columns."""

    name: str
    format: Callable[[], Format]
    draw: Callable[[Random], tuple[bytes, Row]]
    """Draws the bytes of a good record, and the row that they hold by another encoder than the format's own code."""
    ends: bool = True
    """Whether a record says where it ends, so that bytes behind it are a fault."""
    schemas: Schemas = field(default_factory=NoSchemas)

    def decoder(self) -> Decode:
        return self.format().decoder(self.schemas)

    def decoded(self, records: list[bytes | None]) -> Decoded:
        return decoded(self.format(), records, self.schemas)


@dataclass(frozen=True, slots=True)
class Given:
    """The schemas of a registry, as a contract gives them."""

    schemas: Mapping[int, Schema]

    def find(self, part: Part, schema_ids: Sequence[int]) -> Mapping[int, Schema]:
        assert part == "value"
        return {one: self.schemas[one] for one in schema_ids if one in self.schemas}


def decoded(given: Format, records: list[bytes | None], schemas: Schemas) -> Decoded:
    values = pa.array(records, pa.binary())
    return given.decoder(schemas)(RawRecords(part="value", keys=pa.nulls(len(records), pa.binary()), values=values))


def outcomes(found: Decoded, count: int) -> list[Row | str]:
    """Return what became of each record: its row, or the reason why there is none, or of a deletion what it says besides."""
    rows = dict(zip(found.kept.to_pylist(), found.table.to_pylist(), strict=True))
    assert [*rows] == sorted(rows)
    if found.deletions is not None:
        positions = found.deletions.positions.to_pylist()
        assert positions == sorted(positions)
        rows |= {
            place: {"deletes": one} for place, one in zip(positions, found.deletions.table.to_pylist(), strict=True)
        }
    assert [*found.rejected] == sorted(found.rejected)
    assert sorted([*rows, *found.rejected]) == list(range(count)), "each record is kept or rejected, and once"
    return [rows[position] if position in rows else found.rejected[position] for position in range(count)]


def mutated(rng: Random, record: bytes) -> bytes:
    """Return the record with a few bytes changed, taken out, put in, or cut off."""
    data = bytearray(record)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if data:
                data[at % len(data)] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randrange(1, 4)]
            case 2:
                data[at:at] = rng.randbytes(rng.randrange(1, 6))
            case 3:
                del data[at:]
            case _:
                data[at:at] = bytes(data[: rng.randrange(len(data) + 1)])
    return bytes(data)


def _json(rng: Random) -> tuple[bytes, Row]:
    row = {
        "id": rng.choice([None, 0, -1, 2**63 - 1, rng.randrange(-(2**40), 2**40)]),
        "name": rng.choice([None, "", "é\U0001f600", 'a "quoted" \\ text\n', "x" * rng.randrange(300)]),
        "tags": rng.choice([None, [], ["a", None, "b"]]),
        "at": rng.choice([None, {"x": None}, {"x": rng.randrange(100)}]),
    }
    shuffled = rng.sample(list(row.items()), len(row))
    return json.dumps({**dict(shuffled), "more": [1, {}]}, ensure_ascii=rng.random() < 0.5).encode(), row


def _text(rng: Random) -> tuple[bytes, Row]:
    text = "".join(rng.choice("ab é\n\U0001f600") for _ in range(rng.randrange(9)))
    return text.encode(), {"value": text}


def _bytes(rng: Random) -> tuple[bytes, Row]:
    data = rng.randbytes(rng.randrange(9))
    return data, {"value": data}


AVRO_SCHEMA = {
    "type": "record",
    "name": "orders.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "read_over", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "name", "type": ["null", "string"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "share", "type": "float"},
        {"name": "paid", "type": "boolean"},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 3}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [{"name": "sku", "type": ["string", "null"]}, {"name": "n", "type": "int"}],
                },
            },
        },
        {
            "name": "by",
            "type": [{"type": "record", "name": "By", "fields": [{"name": "who", "type": "string"}]}, "null"],
        },
        {
            "name": "any",
            "type": [
                "null",
                {"type": "map", "values": ["null", "string", "Kind", {"type": "array", "items": ["double", "Line"]}]},
                "long",
            ],
        },
    ],
}
AVRO_COLUMNS = {
    "id": "bigint",
    "name": "string",
    "kind": "string",
    "price": "decimal(22,4)",
    "at": "timestamp",
    "day": "date",
    "share": "double",
    "paid": "boolean",
    "lines": "array<struct<n: int, sku: string>>",
    "by": "struct<who: string>",
    "any": "json",
    "not_there": "string",
}


def _avro(rng: Random) -> tuple[bytes, Row]:
    lines = [
        {"sku": rng.choice([None, "", "sku-é"]), "n": rng.randrange(-(2**31), 2**31)}
        for _ in range(rng.choice([0, 1, 3, 90]))
    ]
    row = {
        "id": rng.choice([0, -1, 2**63 - 1, -(2**63), rng.randrange(10**6)]),
        "name": rng.choice([None, "", "é\U0001f600" * rng.randrange(60)]),
        "kind": rng.choice(["NEW", "OLD"]),
        "price": Decimal(rng.choice([0, 1, -1, rng.randrange(-(10**20) + 1, 10**20)])).scaleb(-3),
        "at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=rng.randrange(-6 * 10**13, 10**12)),
        "day": rng.choice([None, date(1, 1, 1), date(9999, 12, 31)]),
        "share": rng.randrange(1 << 20) / 8,
        "paid": rng.random() < 0.5,
        "lines": lines,
        "by": rng.choice([None, {"who": "ada"}]),
    }
    any_ = rng.choice(
        [None, {}, {"a": None, "é": "b\n"}, 2**62, {"l": [0.5, {"sku": None, "n": -1}] * rng.randrange(60)}]
    )
    out = BytesIO()
    beside = {"read_over": rng.choice([{}, {"a": None, "b": "c"}]), "hash": b"abc"}
    fastavro.schemaless_writer(out, _AVRO, {**row, **beside, "any": any_})
    text = None if any_ is None else json.dumps(any_, ensure_ascii=False, separators=(",", ":"))
    return out.getvalue(), {**row, "any": text, "not_there": None}


_AVRO = fastavro.parse_schema(AVRO_SCHEMA)


def avro_format() -> AvroFormat:
    columns = {name: parse_type(kind) for name, kind in AVRO_COLUMNS.items()}
    return AvroFormat(Reader(columns=columns, aliases={}, defaults={}), schema.parsed(json.dumps(AVRO_SCHEMA)))


def _grown(*fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "orders.Order", "fields": fields}


ID: Mapping[str, Any] = {"name": "id", "type": "long"}
NOTE: Mapping[str, Any] = {"name": "note", "type": ["null", "string"]}
GROWN = {
    7: _grown(ID),
    8: _grown(ID, NOTE),
    9: _grown(ID, NOTE, {"name": "tags", "type": {"type": "array", "items": "string"}}),
    300: _grown(ID, NOTE, {"name": "amount", "type": "int"}, {"name": "currency", "type": "string"}),
    70_000: _grown({"name": "number", "type": "int"}, {"name": "currency", "type": "string"}),
}
"""The schemas of a topic by their ids: fields were added, removed and renamed, and a long became an int."""
_GROWN = {schema_id: fastavro.parse_schema(one) for schema_id, one in GROWN.items()}
GROWN_COLUMNS = {"id": "bigint", "note": "string", "amount": "bigint", "currency": "string", "tags": "array<string>"}
OF_GROWN = Given(
    {schema_id: Schema(kind="AVRO", text=json.dumps(one)) for schema_id, one in GROWN.items()}
    | {5: Schema(kind="JSON", text="{}")}
)


def _registered_avro(rng: Random) -> tuple[bytes, Row]:
    schema_id = rng.choice([*GROWN])
    number = rng.randrange(2**31)
    values = {
        "id": number,
        "number": number,
        "note": rng.choice([None, "", "é" * rng.randrange(90)]),
        "tags": ["x"] * rng.choice([0, 1, 70]),
        "amount": rng.randrange(-5, 5),
        "currency": rng.choice(["EUR", "USD"]),
    }
    names = [field["name"] for field in GROWN[schema_id]["fields"]]
    out = BytesIO()
    fastavro.schemaless_writer(out, _GROWN[schema_id], {name: values[name] for name in names})
    absent = {"id": number, "note": None, "tags": None, "amount": None, "currency": "none"}
    return framed(schema_id, out.getvalue()), {
        name: values[name] if name in names else absent[name] for name in GROWN_COLUMNS
    }


def _registered_json(rng: Random) -> tuple[bytes, Row]:
    body, row = _json(rng)
    return framed(5, body), row


def _registered_protobuf(rng: Random) -> tuple[bytes, Row]:
    body, row = protobuf_records.drawn(rng)
    schema_id, head = rng.choice([(20, b"\4\0\0"), (21, b"\4\2\0")])
    return framed(schema_id, head + body), row


_MOVED = "message Before {}\nmessage Envelope {"
OF_ORDERS = Given(
    {
        20: Schema(kind="PROTOBUF", text=protobuf_records.SCHEMA),
        21: Schema(kind="PROTOBUF", text=protobuf_records.SCHEMA.replace("message Envelope {", _MOVED)),
    }
)


_OF_CHANGES = Given(debezium_records.SCHEMAS)


def _declared(**section: Any) -> Format:
    return kinds.declared(Value.model_validate(section), Path(protobuf_records.__file__).parent)


def _json_with_rest(rng: Random) -> tuple[bytes, Row]:
    number = rng.randrange(10**6)
    others = ['"x": 1.10', '"y":{"a" : [1, {}], "b":"}"}', '"é\\n":"\\u00e9"', '"":[]', '"n": 12345678901234567890']
    chosen = rng.sample(others, rng.randrange(len(others) + 1))
    members = [*chosen, '"z": null', f'"id": {number}']
    rng.shuffle(members)
    kept = [re.sub(r'^("[^"]*"): ?', r"\1:", one) for one in members if one in chosen]
    return f"{{{', '.join(members)}}}".encode(), {"id": number, "rest": f"{{{','.join(kept)}}}" if kept else None}


AVRO_WITH_REST = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "more", "type": ["null", "long"]},
        {"name": "id", "type": "long"},
        {"name": "deep", "type": ["null", {"type": "map", "values": {"type": "array", "items": "double"}}]},
    ],
}
_AVRO_WITH_REST = fastavro.parse_schema(AVRO_WITH_REST)


def _avro_with_rest(rng: Random) -> tuple[bytes, Row]:
    row = {
        "more": rng.choice([None, 2**62]),
        "id": rng.randrange(10**6),
        "deep": rng.choice([None, {}, {"é": [0.5] * rng.choice([0, 3, 200])}]),
    }
    out = BytesIO()
    fastavro.schemaless_writer(out, _AVRO_WITH_REST, row)
    others = {name: row[name] for name in ("more", "deep") if row[name] is not None}
    text = json.dumps(others, ensure_ascii=False, separators=(",", ":")) if others else None
    return out.getvalue(), {"id": row["id"], "rest": text}


JSON_COLUMNS = {"id": "bigint", "name": "string", "tags": "array<string>", "at": "struct<x: int>"}
CASES = [
    Case(
        name="json",
        format=lambda: _declared(format="json", columns=JSON_COLUMNS),
        draw=_json,
    ),
    Case(
        name="json, all fields",
        format=lambda: _declared(format="json", columns={"id": "bigint"}, unknown="keep", unknown_column="rest"),
        draw=_json_with_rest,
    ),
    Case(
        name="avro, all fields",
        format=lambda: AvroFormat(
            Reader(columns={"id": parse_type("bigint")}, aliases={}, defaults={}, rest="rest"),
            schema.parsed(json.dumps(AVRO_WITH_REST)),
        ),
        draw=_avro_with_rest,
    ),
    Case(name="avro", format=avro_format, draw=_avro),
    Case(
        name="avro of a registry",
        format=lambda: _declared(
            format="avro",
            frame="confluent",
            columns=GROWN_COLUMNS,
            aliases={"id": ["number"]},
            defaults={"currency": "none"},
        ),
        draw=_registered_avro,
        schemas=OF_GROWN,
    ),
    Case(
        name="json of a registry",
        format=lambda: _declared(format="json", frame="confluent", columns=JSON_COLUMNS),
        draw=_registered_json,
        schemas=OF_GROWN,
    ),
    Case(
        name="protobuf",
        format=lambda: _declared(
            format="protobuf",
            schema_file="order.proto",
            message=protobuf_records.NAME,
            columns=protobuf_records.COLUMNS,
        ),
        draw=protobuf_records.drawn,
        ends=False,
    ),
    Case(
        name="protobuf, all fields",
        format=lambda: _declared(
            format="protobuf",
            schema_file="order.proto",
            message=protobuf_records.NAME,
            columns=protobuf_records.REST_COLUMNS,
            unknown="keep",
            unknown_column="rest",
        ),
        draw=protobuf_records.drawn_with_rest,
        ends=False,
    ),
    Case(
        name="protobuf of a registry",
        format=lambda: _declared(
            format="protobuf", frame="confluent", message=protobuf_records.NAME, columns=protobuf_records.COLUMNS
        ),
        draw=_registered_protobuf,
        ends=False,
        schemas=OF_ORDERS,
    ),
    Case(
        name="debezium",
        format=lambda: _declared(
            format="debezium",
            columns={"id": "bigint", "name": "string", "price": "decimal(12,2)", "day": "date"},
            envelope={"op": "string", "source.lsn": "bigint"},
        ),
        draw=debezium_records.drawn,
    ),
    Case(
        name="debezium of a registry",
        format=lambda: _declared(
            format="debezium",
            frame="confluent",
            columns={"id": "bigint", "name": "string", "price": "decimal(12,2)", "day": "date", "at": "timestamp"},
            envelope={"op": "string", "source.lsn": "bigint"},
        ),
        draw=debezium_records.drawn_in_avro,
        schemas=_OF_CHANGES,
    ),
    Case(
        name="debezium of a registry, all fields",
        format=lambda: _declared(
            format="debezium",
            frame="confluent",
            columns={"id": "bigint", "price": "json"},
            envelope={"op": "string"},
            unknown="keep",
            unknown_column="rest",
        ),
        draw=debezium_records.drawn_with_rest,
        schemas=_OF_CHANGES,
    ),
    Case(name="text", format=lambda: _declared(format="text"), draw=_text, ends=False),
    Case(name="bytes", format=lambda: _declared(format="bytes"), draw=_bytes, ends=False),
]
