"""Changes of Debezium as its connectors write them, in JSON and in Avro, and the rows that they leave."""

import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import orjson

from avro_records import framed, written
from tideline.domain.schemas import Schema

Row = Mapping[str, Any]


def drawn(rng: Random) -> tuple[bytes, Row]:
    """Draw a change, by the converter with a schema or without one. Days and decimals are numbers and bytes with one only."""
    at = {"op": rng.choice(["c", "u", "r"]), "source_lsn": rng.randrange(2**40)}
    number, day = rng.randrange(-(10**9), 10**9), rng.randrange(-(10**5), 10**5)
    since = date(1970, 1, 1) + timedelta(days=day)
    row = {
        "id": rng.randrange(2**40),
        "name": rng.choice([None, "", 'a,"payload":{"x"}', "é" * rng.randrange(50)]),
        "price": rng.choice([None, Decimal(number).scaleb(-2)]),
        "day": since,
    }
    is_known = rng.random() < 0.7
    price = None if row["price"] is None else str(row["price"])
    if is_known and price is not None:
        price = b64encode(number.to_bytes(5, signed=True)).decode()
    after = {**row, "price": price, "day": day if is_known else since.isoformat(), "more": 1}
    change = {"before": None, "after": after, "source": {"lsn": at["source_lsn"], "db": "shop"}, "op": at["op"]}
    separators = rng.choice([(",", ":"), (", ", ": ")])
    record = {"schema": rng.choice(_CONNECT), "payload": change} if is_known else change
    return json.dumps(record, separators=separators).encode(), {**row, **at}


def _connect(*more: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a change of a table with more columns than these."""
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    fields = [
        {"type": "int64", "field": "id"},
        {"type": "string", "field": "name"},
        {**decimal, "field": "price"},
        {"type": "int32", "name": "io.debezium.time.Date", "field": "day"},
        *more,
    ]
    return {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": "after"}], "name": "Envelope"}


_CONNECT = [_connect(), _connect({"type": "int64", "field": "more"})]


def _connect_avro(*more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a change as Connect's converter for Avro has it."""
    fields = [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "price", "type": ["null", {"type": "bytes", "scale": 2, "precision": 12, "logicalType": "decimal"}]},
        {"name": "day", "type": {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"}},
        {"name": "at", "type": {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}},
        *more,
    ]
    source = [{"name": "db", "type": "string"}, {"name": "lsn", "type": ["null", "long"]}]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop",
        "fields": [
            {
                "name": "before",
                "type": ["null", {"type": "record", "name": "Value", "fields": fields}],
                "default": None,
            },
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": source}},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"]},
        ],
    }


CHANGES = {30: _connect_avro(), 31: _connect_avro({"name": "more", "type": "long"})}
SCHEMAS = {one: Schema(kind="AVRO", text=json.dumps(schema)) for one, schema in CHANGES.items()}


def drawn_in_avro(rng: Random) -> tuple[bytes, Row]:
    beside = {"op": rng.choice(["c", "u", "r"]), "source_lsn": rng.randrange(2**40)}
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=rng.randrange(-(10**15), 10**15))
    days = rng.randrange(-(10**5), 10**5)
    row = {
        "id": rng.randrange(2**40),
        "name": rng.choice([None, "", "é" * rng.randrange(50)]),
        "price": rng.choice([None, Decimal(rng.randrange(-(10**9), 10**9)).scaleb(-2)]),
        "day": date(1970, 1, 1) + timedelta(days=days),
        "at": moment,
    }
    after = {**row, "day": days, "at": moment.isoformat(), "more": 1}
    change = {"before": rng.choice([None, after]), "after": after, "op": beside["op"], "ts_ms": None}
    schema_id = rng.choice([*CHANGES])
    body = written(CHANGES[schema_id], {**change, "source": {"db": "shop", "lsn": beside["source_lsn"]}})
    return framed(schema_id, body), {**row, **beside}


def drawn_with_rest(rng: Random) -> tuple[bytes, Row]:
    record, row = drawn_in_avro(rng)
    has_more = int.from_bytes(record[1:5]) == 31
    others = {
        "name": row["name"],
        "day": row["day"].isoformat(),
        "at": row["at"].isoformat(),
        "more": 1 if has_more else None,
    }
    rest = {name: one for name, one in others.items() if one is not None}
    price = None if row["price"] is None else f"{row['price']:f}"
    return record, {"id": row["id"], "price": price, "rest": orjson.dumps(rest).decode(), "op": row["op"]}
