"""Values of a topic in Avro and Protobuf: each behind the id of a schema that the registry has, and nothing is sent without one."""

import json
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO

import fastavro
import pytest
from google.protobuf import json_format, message_factory

import records
from given_topics.output_topics import committed_records
from loads.kafka_loading import TopicLoading
from servers.cli_process import Cli
from servers.schema_registry import SchemaRegistry
from tideline.errors import FatalError, RetryableError
from tideline.formats.protobuf.compiling import Messages, compiled

FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}},
    ],
}
LATER = FIRST | {"fields": [*FIRST["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
PROTO = """\
syntax = "proto3";
package shop;
message Order { int64 id = 1; optional string name = 2; Price price = 3; message Price { string value = 1; } }
"""
REFUSED_PROTO = PROTO.replace("Price price", "int32 price")
AS_TEXT = """
    import pyarrow as pa

    def records(rows):
        prices = pa.StructArray.from_arrays([rows["price"].combine_chunks().cast(pa.string())], ["value"])
        return rows.set_column(rows.column_names.index("price"), "price", prices)
"""


@pytest.fixture
def registry():
    with SchemaRegistry() as server:
        yield server


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A pipeline that writes a topic with a schema, and the registry."""

    loads: TopicLoading
    topic: str
    out: str
    registry: SchemaRegistry

    def declare(self, *, transform="", **written):
        """Declare the pipeline, with these keys of `sink.value`."""
        at = {"urls": [self.registry.url], "timeout_seconds": 2}
        self.loads.declare_topic(self.topic, self.out, transform=transform, key=["id"], registry=at, written=written)


@pytest.fixture
def scene(loads, topic, out, registry):
    return Scene(loads=loads, topic=topic, out=out, registry=registry)


def read(loads, out, schemas):
    """Return key, id of the schema and value of each record, in Avro."""
    found = []
    for one in committed_records(loads.bootstrap, out):
        schema_id = int.from_bytes(one.value()[1:5], "big")
        body = BytesIO(one.value()[5:])
        row = fastavro.schemaless_reader(body, fastavro.parse_schema(schemas[schema_id]))
        assert (one.value()[0], body.read()) == (0, b"")
        found.append((one.key(), schema_id, row))
    return sorted(found, key=lambda each: each[2]["id"])


def order(number, **more):
    return {"id": number, "name": f"n{number}", "price": Decimal("1.2500")} | more


def test_each_record_is_written_once_with_the_newest_schema_and_what_it_cannot_hold_is_a_reject(scene):
    schema_id = scene.registry.register(f"{scene.out}-value", FIRST)
    scene.declare(format="avro")
    scene.loads.produce(scene.topic, 10)
    records.produce(scene.loads.bootstrap, scene.topic, [json.dumps({"id": 10, "name": None, "price": 1})])
    scene.loads.run()
    assert read(scene.loads, scene.out, {schema_id: FIRST}) == [
        (str(n).encode(), schema_id, order(n)) for n in range(10)
    ]
    scene.loads.expect(scene.out, [(0, offset) for offset in range(10)])
    assert scene.loads.counts()["n_rejected"] == 1
    assert [reason for _, reason, _ in scene.loads.rejects().values()] == [
        "UnencodableError: column name: expected a value, which the schema requires, found null"
    ]


def test_a_batch_is_written_with_the_schema_that_is_the_newest_when_it_is_loaded(scene):
    first = scene.registry.register("orders", FIRST)
    scene.declare(format="avro", subject="orders")
    scene.loads.produce(scene.topic, 2)
    scene.loads.run()
    later = scene.registry.register("orders", LATER)
    scene.loads.produce(scene.topic, 2, first=2)
    scene.loads.run()
    found = read(scene.loads, scene.out, {first: FIRST, later: LATER})
    assert [(schema_id, row) for _, schema_id, row in found] == [
        *((first, order(n)) for n in range(2)),
        *((later, order(n, note=None)) for n in range(2, 4)),
    ]


def test_a_registry_that_does_not_answer_loses_nothing_and_nothing_is_sent(scene):
    schema_id = scene.registry.register(f"{scene.out}-value", FIRST)
    scene.declare(format="avro")
    scene.loads.produce(scene.topic, 3)
    scene.registry.fault = lambda _path: (503, {"message": "maintenance"})
    batches = scene.loads.plan("first")
    with pytest.raises(RetryableError, match=r"schema registry default: no address answers .*status 503") as raised:
        scene.loads.write("first", batches)
    assert "correct sink.registry.urls" in str(raised.value)
    assert (scene.loads.states(), committed_records(scene.loads.bootstrap, scene.out)) == (["failed"], [])
    scene.registry.fault = lambda _path: None
    scene.loads.write("first", batches, try_number=2)
    assert [row["id"] for _, _, row in read(scene.loads, scene.out, {schema_id: FIRST})] == [0, 1, 2]


def test_a_schema_of_the_folder_must_be_in_the_registry_or_is_registered_once_if_that_is_declared(scene):
    scene.declare(format="avro", schema_file="order.avsc")
    (scene.loads.folder / "order.avsc").write_text(json.dumps(FIRST))
    scene.loads.produce(scene.topic, 2)
    batches = scene.loads.plan("first")
    with pytest.raises(
        FatalError, match=f"subject {scene.out}-value of the registry has not the schema of .*order.avsc"
    ):
        scene.loads.write("first", batches)
    assert scene.registry.schemas == {}
    scene.declare(format="avro", schema_file="order.avsc", auto_register=True)
    (scene.loads.folder / "order.avsc").write_text(json.dumps(FIRST))
    scene.loads.write("first", batches, try_number=2)
    scene.loads.advance("first")
    scene.loads.produce(scene.topic, 2, first=2)
    scene.loads.run()
    [schema_id] = scene.registry.schemas
    assert [(found, row["id"]) for _, found, row in read(scene.loads, scene.out, {schema_id: FIRST})] == [
        (schema_id, number) for number in range(4)
    ]


def test_a_schema_that_the_registry_refuses_is_not_written(scene):
    scene.registry.refuses = lambda subject, _text: subject == f"{scene.out}-value"
    scene.declare(format="avro", schema_file="order.avsc", auto_register=True)
    (scene.loads.folder / "order.avsc").write_text(json.dumps(FIRST))
    scene.loads.produce(scene.topic, 2)
    with pytest.raises(FatalError, match=r"refuses the schema for .*is incompatible with an earlier schema") as raised:
        scene.loads.run()
    assert "correct the schema, or the compatibility" in str(raised.value)
    assert committed_records(scene.loads.bootstrap, scene.out) == []


def test_a_schema_that_the_columns_do_not_fit_is_not_registered(scene):
    scene.declare(format="avro", schema_file="order.avsc", auto_register=True)
    (scene.loads.folder / "order.avsc").write_text(json.dumps(FIRST | {"fields": FIRST["fields"][:2]}))
    scene.loads.produce(scene.topic, 1)
    with pytest.raises(FatalError, match="price: the schema has no such field"):
        scene.loads.run()
    assert scene.registry.schemas == {}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (FIRST | {"fields": FIRST["fields"][:2]}, "price: the schema has no such field"),
        (
            FIRST | {"fields": [*FIRST["fields"], {"name": "at", "type": "long"}]},
            "at: missing, and the schema has no default",
        ),
        (FIRST | {"fields": [{"name": "id", "type": "string"}, *FIRST["fields"][1:]]}, "id: the schema has string"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "expected a record, found enum E"),
    ],
)
def test_columns_that_the_schema_does_not_fit_are_refused_before_the_read(scene, schema, said):
    scene.registry.register(f"{scene.out}-value", schema)
    scene.declare(format="avro")
    scene.loads.produce(scene.topic, 1)
    with pytest.raises(FatalError, match=said):
        scene.loads.run()
    assert committed_records(scene.loads.bootstrap, scene.out) == []


def test_values_in_protobuf_are_read_by_googles_library(scene):
    schema_id = scene.registry.register(f"{scene.out}-value", PROTO, kind="PROTOBUF")
    scene.declare(format="protobuf", message="shop.Order", transform=AS_TEXT)
    scene.loads.produce(scene.topic, 3)
    scene.loads.run()
    message = message_factory.GetMessageClass(Messages(compiled(PROTO)).named("shop.Order"))
    head = b"\0" + schema_id.to_bytes(4, "big") + b"\0"
    found = [one.value() for one in committed_records(scene.loads.bootstrap, scene.out)]
    assert {one[: len(head)] for one in found} == {head}
    rows = [json_format.MessageToDict(message.FromString(one[len(head) :])) for one in found]
    assert sorted(rows, key=lambda row: int(row.get("id", 0))) == [
        {**({"id": str(n)} if n else {}), "name": f"n{n}", "price": {"value": "1.2500"}} for n in range(3)
    ]


def test_validate_says_whether_the_columns_fit(scene, broker):
    shell = Cli(folder=scene.loads.folder.parent, variables={"TIDELINE_KAFKA": broker.bootstrap})
    name = scene.loads.folder.name

    def said(*options, code=0):
        return " ".join(shell("validate", name, *options, code=code).stdout.split())

    scene.declare(format="avro", schema_file="order.avsc")
    (scene.loads.folder / "order.avsc").write_text(json.dumps(FIRST))
    assert f"what the transform returns fits topic {scene.out}" in said()
    assert "order.avsc is not in the registry; register it" in said("--registry", code=20)
    scene.registry.register(f"{scene.out}-value", FIRST)
    assert f"order.avsc is schema 1 of {scene.out}-value" in said("--registry")
    scene.registry.refuses = lambda _subject, text: "note" in text
    (scene.loads.folder / "order.avsc").write_text(json.dumps(LATER))
    assert "it is not compatible with the newest" in said("--registry", code=20)
    scene.declare(format="avro")
    assert f"schema 1, the newest of {scene.out}-value, fits" in said("--registry")
    scene.declare(format="avro", transform="def records(rows):\n    return rows.drop_columns(['name'])\n")
    assert f"the newest of {scene.out}-value: name: missing" in said("--registry", code=20)
