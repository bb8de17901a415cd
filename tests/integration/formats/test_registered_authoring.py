"""The commands for authors on records that name their schema in a registry: a new pipeline, its sample, and its test without the registry."""

import json
import runpy
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from avro_records import framed, written
from protobuf_records import message_class
from servers.cli_process import Cli
from servers.schema_registry import SchemaRegistry
from tideline.deployment import secret

MOMENT = {"type": "long", "logicalType": "timestamp-millis"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "orderId", "type": "long"}, {"name": "amount", "type": "int"}],
}
LAST = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "orderId", "type": "long"},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "total", "type": ["null", MONEY]},
        {"name": "placed_at", "type": MOMENT},
        {"name": "sent", "type": ["null", "long"]},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "raw", "type": "bytes"},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}}},
    ],
}  # fmt: skip
TOKEN = secret.marked("registry")
AT = datetime(2026, 1, 31, 10, tzinfo=UTC)
TABLE = [
    ("orderId", "bigint", "order_id", "bigint"),
    ("uid", "string", "uid", "uuid"),
    ("total", "decimal(10,2)", "total", "numeric(10, 2)"),
    ("placed_at", "timestamp", "placed_at", "timestamptz"),
    ("sent", "bigint", "sent", "timestamptz"),
    ("tags", "json", "tags", "jsonb"),
    ("lines", "array<struct<sku: string>>", "lines", "jsonb"),
]


@pytest.fixture
def registry():
    with SchemaRegistry(login=TOKEN) as server:
        yield server


@pytest.fixture
def shell(tmp_path, broker, registry) -> Cli:
    variables = {"TIDELINE_KAFKA": broker.bootstrap, "ORDERS_TOKEN": TOKEN, "ORDERS_REGISTRY": registry.url}
    return Cli(folder=tmp_path, variables=variables)


def record(schema_id, schema, **row):
    return framed(schema_id, written(schema, row))


def last(number):
    uid = f"00000000-0000-4000-8000-{number:012}"
    return record(
        2,
        LAST,
        orderId=number,
        uid=uid,
        total=None,
        placed_at=AT,
        sent=int(AT.timestamp()),
        tags={"a": "b"},
        raw=b"",
        lines=[{"sku": "a"}],
    )


def send(broker, topic, *values):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value, timestamp=int(AT.timestamp() * 1000))
    assert producer.flush(20) == 0


def new(shell, topic, *options, code=0):
    login = ("--registry", "urls=env:ORDERS_REGISTRY", "--registry", "token=env:ORDERS_TOKEN")
    return shell(
        "new", "orders", "--topic", topic, "--bootstrap-servers", "env:TIDELINE_KAFKA", *login, *options, code=code
    )


def test_a_new_pipeline_has_the_columns_of_the_schema_and_a_test_that_needs_no_registry(shell, broker, topic, registry):
    registry.register("orders-value", FIRST)
    registry.register("orders-value", LAST)
    send(broker, topic, record(1, FIRST, orderId=1, amount=3), *map(last, range(9)), last(9)[:-1])
    said = new(shell, topic).stdout
    assert "they name 2 schemas: 1 in 1, 2 in 10" in said
    assert "raw: the schema has bytes. Chosen: left out: it is ignored" in said
    assert "1 of 11 cannot be decoded: ends in the middle of a value" in said
    folder = shell.folder / "orders"
    assert {path.name for path in folder.iterdir()} == {
        "pipeline.yaml", "target.sql", "transform.py", "test_orders.py", "sample.txt", "schemas.json"
    }  # fmt: skip
    assert TOKEN not in "".join(path.read_text() for path in folder.iterdir())
    shell("validate", "orders")
    sampled = shell.json("sample", "orders", "--count", "11")
    assert sampled["counts"] == {"read": 11, "written": 10, "rejected": 1, "filtered": 0, "rows": 10}
    assert sampled["rows"][1]["row"]["placed_at"] == sampled["rows"][1]["row"]["sent"] == "2026-01-31T10:00:00Z"
    schemas = shell("sample", "orders", "--count", "11", "--schemas").stdout
    assert json.loads(schemas) == json.loads((folder / "schemas.json").read_text())
    asked = len(registry.asked)
    registry.fault = lambda _path: (503, b"")
    tried = shell.json("test", "orders", str(folder / "sample.txt"), "--fail-on-rejects")
    assert tried["counts"]["written"] == 5
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(folder)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout
    assert len(registry.asked) == asked
    assert runpy.run_path(str(folder / "test_orders.py"))["COLUMNS"] == {column for _, _, column, _ in TABLE}


def test_the_document_names_fields_and_tables(shell, broker, topic, registry):
    registry.register("orders-value", FIRST)
    registry.register("orders-value", LAST)
    send(broker, topic, *map(last, range(3)))
    found = json.loads(new(shell, topic, "--json").stdout)
    assert [(one["field"], one["type"], one["column"], one["table_type"]) for one in found["fields"]] == TABLE


def test_json_in_a_frame_has_the_columns_of_its_records(shell, broker, topic, registry):
    registry.register("orders-value", "{}", kind="JSON")
    send(broker, topic, *(b'\0\0\0\0\1{"id": %d, "name": "a"}' % number for number in range(3)))
    new(shell, topic)
    assert shell.json("test", "orders", str(shell.folder / "orders" / "sample.txt"))["counts"]["written"] == 3


def test_json_without_a_field_is_refused(shell, broker, topic, registry):
    registry.register("orders-value", "{}", kind="JSON")
    send(broker, topic, b"\0\0\0\0\1{}")
    assert "found schemas of the kind JSON" in new(shell, topic, code=20).stderr
    assert not (shell.folder / "orders").exists()


def test_schemas_are_those_of_the_registry_also_where_the_folder_has_others(shell, broker, topic, registry):
    registry.register("orders-value", LAST, schema_id=2)
    send(broker, topic, last(1))
    new(shell, topic)
    registry.schemas.clear()
    registry.register("orders-value", {**LAST, "doc": "another"}, schema_id=2)
    assert "another" in shell("sample", "orders", "--schemas").stdout


def test_columns_are_compared_with_the_newest_schema_of_the_topic(shell, broker, topic, registry):
    registry.register(f"{topic}-value", FIRST)
    registry.register(f"{topic}-value", LAST)
    send(broker, topic, *map(last, range(3)))
    new(shell, topic)
    found = shell.json("validate", "orders", "--registry")["findings"][-1]
    assert (found["verdict"], found["found"]) == (
        "ok",
        f"schema 2, the newest of {topic}-value, fits; not declared: raw",
    )
    registry.register(f"{topic}-value", FIRST)
    found = shell.json("validate", "orders", "--registry")["findings"][-1]
    expected = (
        f"schema 3, the newest of {topic}-value, fits; not declared: amount; "
        "null or the default, because it has not: uid, total, placed_at, sent, tags, lines"
    )
    assert (found["verdict"], found["found"]) == ("ok", expected)
    registry.register(f"{topic}-value", {**FIRST, "fields": [{"name": "orderId", "type": "string"}]})
    found = json.loads(shell("validate", "orders", "--registry", "--json", code=20).stdout)["findings"][-1]
    assert found["verdict"] == "bad"
    assert "orderId: expected bigint, the schema has string; its records become rejects" in found["found"]
    registry.schemas.clear()
    found = shell.json("validate", "orders", "--registry")["findings"][-1]
    assert (found["verdict"], found["where"]) == ("not checked", f"{topic}-value")


@pytest.fixture
def unreadable(request, broker, topic, registry):
    """Return a topic with one record that has no frame, or whose schema is no Avro."""
    registry.register("orders-value", "syntax", kind="PROTOBUF")
    send(broker, topic, request.param)
    return topic


@pytest.mark.parametrize(
    ("unreadable", "options", "said"),
    [
        (b"no frame", (), "found none that names a schema of the registry"),
        (
            b"\0\0\0\0\1\1",
            (),
            "expected records whose schema has fields for columns, in Avro, Protobuf or JSON, found schemas of the kind PROTOBUF",
        ),
        (b"\0\0\0\0\1\1", ("--no-values",), "with a schema registry records are looked at"),
        (b"\0\0\0\0\1\1", ("--registry", "colour=red"), "--registry: unknown key; known: urls, name"),
        (b"\0\0\0\0\1\1", ("--registry", "password=s3cret"), "--registry password: expected {env: NAME}"),
    ],
    indirect=["unreadable"],
)
def test_what_cannot_be_a_pipeline_of_a_registry_is_refused_and_nothing_is_written(shell, unreadable, options, said):
    found = new(shell, unreadable, *options, code=20).stderr
    assert said in found
    assert "s3cret" not in found
    assert not (shell.folder / "orders").exists()


ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Cart { int64 id = 1; }
message Order {
  enum State { OPEN = 0; PAID = 1; }
  message Line { string sku = 1; Order whole = 2; }
  int64 order_id = 1;
  optional string note = 2;
  State state = 3;
  google.protobuf.Timestamp placed_at = 4;
  repeated Line lines = 5;
  map<string, int32> counts = 6;
  uint64 big = 7;
  bytes raw = 8;
}
"""
OF_ORDER = [
    ("order_id", "bigint", "order_id", "bigint"),
    ("note", "string", "note", "text"),
    ("state", "string", "state", "text"),
    ("placed_at", "timestamp", "placed_at", "timestamptz"),
    ("lines", "array<struct<sku: string>>", "lines", "jsonb"),
    ("counts", "array<struct<key: string, value: int>>", "counts", "jsonb"),
    ("big", "decimal(20,0)", "big", "numeric(20, 0)"),
]


def test_a_new_pipeline_of_protobuf_has_the_columns_of_its_message(shell, broker, topic, registry):
    registry.register("orders-value", ORDER, kind="PROTOBUF")
    made = message_class(ORDER, "shop.Order")
    orders = [
        made(order_id=number, placed_at={"seconds": int(AT.timestamp())}, counts={"a": number}, big=2**64 - 1)
        for number in range(9)
    ]
    values = [framed(1, b"\2\2" + one.SerializeToString()) for one in orders]
    send(broker, topic, *values, framed(1, b"\0\x08\x05"), values[0][:-1])
    found = json.loads(new(shell, topic, "--json").stdout)
    doubts = {(one["subject"], one["seen"], one["chosen"]) for one in found["unsure"]}
    assert [(one["field"], one["type"], one["column"], one["table_type"]) for one in found["fields"]] == OF_ORDER
    assert ("records", "they are of 2 messages: shop.Order in 10, shop.Cart in 1", "shop.Order") in doubts
    assert ("raw", "the schema has bytes", "left out: it is ignored") in doubts
    folder = shell.folder / "orders"
    assert "    message: shop.Order\n" in (folder / "pipeline.yaml").read_text()
    shell("validate", "orders")
    registry.fault = lambda _path: (503, b"")
    tried = shell.json("test", "orders", str(folder / "sample.txt"), "--fail-on-rejects")
    assert tried["counts"]["written"] == 5
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(folder)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout
