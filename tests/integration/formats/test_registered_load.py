"""Records that name their schema in a registry are loaded as all others are, and what a batch has used of the registry is kept."""

import json
from decimal import Decimal

import pytest

import avro_records
import records
from avro_records import framed
from given_ledger.ledgers import claim, plan, start_streams
from loads.loading import COLUMNS
from servers.schema_registry import SchemaRegistry
from tideline.authoring import registry_checks
from tideline.declaration.registry import RegistryAccess
from tideline.domain.checks import Verdict
from tideline.domain.requests import KeptRejects, OneBatch
from tideline.errors import FatalError, RetryableError
from tideline.registry import kept_schemas
from tideline.registry.kept_schemas import KeptSchemas

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}
FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "title", "type": "string"}],
}
SECOND = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "price", "type": PRICE},
        {"name": "more", "type": {"type": "map", "values": "int"}},
    ],
}
MISFIT = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "region", "type": "string"}]}
VALUE = {
    "format": "avro",
    "frame": "confluent",
    "columns": COLUMNS,
    "aliases": {"name": ["title"]},
    "defaults": {"price": 0},
}
REGIONS = """\
CREATE SCHEMA ads;
CREATE TABLE ads.output (
    region text, id bigint, name text, price numeric(12, 4),
    kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
"""
USED = """
    SELECT part, schema_id, subjects, batch_id FROM tideline.attempt_schema JOIN tideline.attempt USING (attempt_id)
    JOIN tideline.registered_schema USING (pipeline, registry, schema_id)
    ORDER BY batch_id, part, schema_id
    """


@pytest.fixture
def registry():
    with SchemaRegistry() as server:
        yield server


@pytest.fixture
def avro(loading, registry):
    """Return a pipeline of records in the frame of a registry, with its topic."""
    topic = records.create(loading.bootstrap, partitions=2)
    loading.declare(topic, value=VALUE, registry={"urls": [registry.url], "timeout_seconds": 5}, fail_above=1)
    return loading, topic


def record(schema_id, schema, **row):
    return framed(schema_id, avro_records.written(schema, row))


def first(number, schema_id=1):
    return record(schema_id, FIRST, id=number, title=f"n{number}")


def second(number, schema_id=2):
    return record(schema_id, SECOND, id=number, name=None, price=Decimal(number).scaleb(-2), more={"a": 1})


def written(loading):
    return sorted(loading.output().values())


def test_records_of_several_schemas_are_rows_and_what_fits_none_is_a_reject_that_names_id_and_subject(avro, registry):
    loading, topic = avro
    registry.register("orders-value", FIRST)
    registry.register("orders-value", SECOND)
    registry.register("carts-value", "{}", kind="JSON")
    registry.register("people-value", MISFIT)
    bad = {
        first(7, 99): "the registry has no schema of id 99",
        first(8, 3): "schema id 3 of carts-value: expected a schema of the kind AVRO, found JSON",
        record(4, MISFIT, id="nine"): "schema id 4 of people-value: id: expected bigint, the schema has string",
        b"{" + first(10)[1:]: "expected a zero byte and the id of a schema in four bytes, found 7b 00 00 00 01",
        second(11)[:-1]: "ends in the middle of a value",
        b"\0\0\0": "expected a zero byte and the id of a schema in four bytes, found 3 bytes in all",
        b"": "expected a zero byte and the id of a schema in four bytes, found 0 bytes in all",
    }
    good = [one for number in range(20) for one in (first(number), second(100 + number))]
    sent = records.produce(loading.bootstrap, topic, [*good, *bad, None], partitions=2)
    [batch] = loading.run()
    expected = sorted(
        [(number, f"n{number}", Decimal(0)) for number in range(20)]
        + [(100 + number, None, Decimal(100 + number).scaleb(-2)) for number in range(20)]
    )
    assert written(loading) == expected
    found = {value: (step, reason) for step, reason, value in loading.rejects().values()}
    assert found == {one: ("decode", reason) for one, reason in bad.items()} | {
        None: ("decode", "value is null: a tombstone holds no value")
    }
    assert loading.counts() == {"n_read": 48, "n_written": 40, "n_rejected": 8, "n_filtered": 0, "n_gap": 0}
    assert len(sent) == 48
    assert loading.rows(USED) == [
        ("value", 1, ["orders-value"], batch),
        ("value", 2, ["orders-value"], batch),
        ("value", 3, ["carts-value"], batch),
        ("value", 4, ["people-value"], batch),
    ]
    assert loading.rows("SELECT kind, count(*) FROM tideline.schema GROUP BY kind ORDER BY kind") == [
        ("AVRO", 3),
        ("JSON", 1),
    ]


@pytest.mark.parametrize("state", ["emptied", "down"])
def test_what_was_loaded_is_loaded_again_without_the_registry(avro, registry, state):
    loading, topic = avro
    registry.register("orders-value", FIRST)
    records.produce(loading.bootstrap, topic, map(first, range(10)), partitions=2)
    [batch] = loading.run()
    before = written(loading)
    registry.schemas.clear()
    if state == "down":
        registry.fault = lambda _path: (0, b"")
    [again] = loading.run(OneBatch(batch_id=batch, replace=True), reason="again")
    assert (written(loading), loading.rejects()) == (before, {})
    assert [row[1:] for row in loading.rows(USED)] == [(1, ["orders-value"], batch), (1, ["orders-value"], again)]


def test_a_registry_that_is_down_makes_no_rejects_and_loses_nothing(avro, registry):
    loading, topic = avro
    registry.register("orders-value", FIRST)
    records.produce(loading.bootstrap, topic, map(first, range(10)), partitions=2)
    registry.fault = lambda _path: (503, b"")
    batches = loading.plan("first")
    with pytest.raises(RetryableError, match=r"schema registry default: no address answers .*status 503"):
        loading.write("first", batches)
    assert (loading.states(), loading.output(), loading.rejects()) == (["failed"], {}, {})
    registry.fault = lambda _path: None
    loading.write("first", batches, try_number=2)
    assert (len(loading.output()), loading.rejects()) == (10, {})


def test_a_page_of_a_proxy_is_no_answer_about_an_id(avro, registry):
    loading, topic = avro
    records.produce(loading.bootstrap, topic, map(first, range(10)), partitions=2)
    registry.fault = lambda _path: (404, b"<html>no such page</html>")
    batches = loading.plan("first")
    with pytest.raises(FatalError, match="answers 404 in other words"):
        loading.write("first", batches)
    assert (loading.states(), loading.rejects()) == (["failed"], {})


def test_records_whose_schema_comes_late_are_redriven(avro, registry):
    loading, topic = avro
    records.produce(loading.bootstrap, topic, map(first, range(10)), partitions=2)
    loading.run()
    assert (len(loading.rejects()), loading.rows(USED)) == (10, [])
    registry.register("orders-value", FIRST)
    loading.run(KeptRejects(), reason="registered")
    assert (len(loading.output()), loading.rejects()) == (10, {})


def test_keys_name_schemas_of_their_own(loading, registry):
    topic = records.create(loading.bootstrap)
    key = {"format": "avro", "frame": "confluent", "columns": {"region": "string"}}
    loading.declare(topic, target=REGIONS, value=VALUE, key=key, registry={"urls": [registry.url]})
    registry.register("orders-key", KEY)
    registry.register("orders-value", FIRST)
    keys = [record(1, KEY, region="north"), record(1, KEY, region="south")]
    records.produce(loading.bootstrap, topic, [first(1, 2), first(2, 2)], keys=keys)
    [batch] = loading.run()
    assert loading.rows("SELECT region, id FROM ads.output ORDER BY id") == [("north", 1), ("south", 2)]
    assert loading.rows(USED) == [("key", 1, ["orders-key"], batch), ("value", 2, ["orders-value"], batch)]


def test_json_in_the_frame_of_a_registry_is_loaded(loading, registry):
    topic = records.create(loading.bootstrap)
    value = {"format": "json", "frame": "confluent", "columns": COLUMNS}
    loading.declare(topic, value=value, registry={"urls": [registry.url]}, fail_above=1)
    registry.register("orders-value", {"type": "object"}, kind="JSON")
    frame = b"\0\0\0\0\1"
    good = frame + b'{"id": 1, "name": "a", "price": 1.5}'
    bad = [good[5:], b"\0\0\0\0\2" + good[5:], frame, frame + b"{"]
    records.produce(loading.bootstrap, topic, [good, *bad])
    loading.run()
    assert written(loading) == [(1, "a", Decimal("1.5"))]
    assert [value for _, (_, _, value) in sorted(loading.rejects().items())] == bad


MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
ORDER = """
syntax = "proto3";
package shop;
import "shop/money.proto";
message Cart { int64 id = 1; }
message Order { int64 id = 1; optional string title = 2; string price = 3; Money paid = 4; }
"""
SAME_ORDER = ORDER.replace("message Cart { int64 id = 1; }", "").replace("}", "repeated string tags = 9; }", 1)


@pytest.mark.parametrize("state", ["there", "emptied", "down"])
def test_protobuf_in_the_frame_of_a_registry_is_loaded_and_loaded_again_without_it(loading, registry, state):
    topic = records.create(loading.bootstrap, partitions=2)
    value = {"format": "protobuf", "frame": "confluent", "message": "shop.Order", "columns": COLUMNS}
    value |= {"aliases": {"name": ["title"]}}
    loading.declare(topic, value=value, registry={"urls": [registry.url]}, fail_above=1)
    registry.register("money", MONEY, kind="PROTOBUF")
    imported = [("shop/money.proto", "money", 1)]
    registry.register("orders-value", ORDER, kind="PROTOBUF", references=imported)
    registry.register("orders-value", SAME_ORDER, kind="PROTOBUF", references=imported)
    registry.register("carts-value", FIRST)
    good = b"\x08\x07\x12\x01a\x1a\x032.5\x22\x02\x08\x63"
    bad = {
        framed(2, b"\0" + good): "expected message shop.Order, found shop.Cart at [0] of the schema",
        framed(2, b"\2\2" + good[:-1]): "the bytes are no message of this schema, or text in it is not valid UTF-8",
        framed(4, b"\0" + good): "schema id 4 of carts-value: expected a schema of the kind PROTOBUF, found AVRO",
    }
    if state != "down":  # what a registry that is down does not know is not known to be unknown
        bad[framed(9, b"\0" + good)] = "the registry has no schema of id 9"
    records.produce(loading.bootstrap, topic, [framed(2, b"\2\2" + good), framed(3, b"\0" + good), *bad])
    [batch] = loading.run()
    assert written(loading) == [(7, "a", Decimal("2.5"))] * 2
    assert {value: reason for _, reason, value in loading.rejects().values()} == bad
    if state == "emptied":
        registry.schemas.clear()
    elif state == "down":
        registry.fault = lambda _path: (503, b"")
    before = written(loading)
    [again] = loading.run(OneBatch(batch_id=batch, replace=True), reason="again")
    assert written(loading) == before
    if state == "there":
        with loading.ledger() as ledger:
            found = [one.found for one in registry_checks.checked(loading.pipeline, ledger)]
        assert "schema 2, used by batches, fits; not declared: paid" in found
        assert "schema 3, used by batches, fits; not declared: paid, tags" in found
    assert [row[1] for row in loading.rows(USED) if row[3] == again] == [2, 3, 4]


def test_columns_are_compared_with_the_schemas_that_batches_have_used(avro, registry):
    loading, topic = avro
    registry.register("orders-value", FIRST)
    registry.register("orders-value", SECOND)
    registry.register("people-value", MISFIT)
    records.produce(loading.bootstrap, topic, [first(1), second(2), record(3, MISFIT, id="x")])
    loading.run()
    with loading.ledger() as ledger:
        found = [one for one in registry_checks.checked(loading.pipeline, ledger) if "used by batches" in one.found]
    assert [(one.verdict, one.found) for one in found] == [
        (Verdict.OK, "schema 1, used by batches, fits; null or the default, because it has not: price"),
        (Verdict.OK, "schema 2, used by batches, fits; not declared: more"),
        (
            Verdict.BAD,
            "schema 3, used by batches: id: expected bigint, the schema has string; its records become rejects",
        ),
    ]


def attempt_of(ledger):
    [stream] = start_streams(ledger, 1)
    return claim(ledger, plan(ledger, {stream: (0, 10)}))


def finding(ledger_url, attempt, *urls):
    access = RegistryAccess(pipeline=attempt.pipeline, name="default", urls=urls, timeout_seconds=2)
    return KeptSchemas(access=access, ledger_url=ledger_url, attempt=attempt.attempt)


def test_an_id_that_means_another_schema_than_before_stops_the_load(ledger, ledger_url, registry, monkeypatch):
    """Nothing in a record says which of the two it was written with."""
    monkeypatch.setattr(kept_schemas, "_compared", set())
    schemas = finding(ledger_url, attempt_of(ledger), registry.url)
    registry.register("orders-value", FIRST)
    before = schemas.find("value", [1])
    registry.schemas.clear()
    registry.register("carts-value", SECOND)
    kept_schemas._compared.clear()  # as in a new process
    with pytest.raises(FatalError, match=r"schema id 1: registry default now gives another schema"):
        schemas.find("value", [1])
    registry.schemas.clear()
    registry.register(
        "orders-value", json.dumps(FIRST, indent=4)
    )  # moved to another server, which writes it differently
    kept_schemas._compared.clear()
    assert schemas.find("value", [1]) == before


def test_a_process_asks_a_registry_once_for_an_id_and_again_for_one_that_is_unknown(ledger, ledger_url, registry):
    schemas = finding(ledger_url, attempt_of(ledger), registry.url)
    registry.register("orders-value", FIRST)
    for _ in range(3):
        assert [*schemas.find("value", [1, 2])] == [1]
    assert registry.asked.count("/schemas/ids/1") == 1
    assert registry.asked.count("/schemas/ids/2") == 3
    registry.register("orders-value", SECOND)
    assert [*schemas.find("value", [1, 2])] == [1, 2]


def test_a_schema_that_the_ledger_has_lost_is_asked_for_again(ledger, ledger_url, registry):
    """A ledger that was restored to an earlier moment knows fewer than a process that has lived on."""
    attempt = attempt_of(ledger)
    schemas = finding(ledger_url, attempt, registry.url)
    registry.register("orders-value", FIRST)
    kept_schemas._compared.add((ledger_url, attempt.pipeline, "default", 1))
    assert [*schemas.find("value", [1])] == [1]


def test_ids_that_are_kept_need_no_registry_beside_some_that_are_not(ledger, ledger_url, registry):
    attempt = attempt_of(ledger)
    registry.register("orders-value", FIRST)
    finding(ledger_url, attempt, registry.url).find("value", [1])
    newer = claim(ledger, attempt.batch_id, stale_after_seconds=0.0)
    down = finding(ledger_url, newer, "http://127.0.0.1:1")
    assert [*down.find("value", [1])] == [1]
    with pytest.raises(RetryableError, match="no address answers /schemas/ids/2"):
        down.find("value", [1, 2])
