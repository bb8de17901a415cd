"""A table that is loaded from the changes of Debezium ends as the table of the source, whatever the connector sends again and what is replayed."""

import json
from base64 import b64encode
from decimal import Decimal
from random import Random

import pytest

import avro_records
import records
from avro_records import framed
from servers.schema_registry import SchemaRegistry
from tideline.declaration import pipelines
from tideline.domain.requests import OneBatch
from tideline.errors import FatalError

TARGET = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.output (
    id bigint PRIMARY KEY,
    name text,
    price numeric(12, 2),
    born date,
    source_lsn bigint NOT NULL,
    kafka_topic_id uuid NOT NULL,
    kafka_partition integer NOT NULL,
    kafka_offset bigint NOT NULL,
    tideline_batch bigint NOT NULL
);
"""
COLUMNS = {"name": "string", "price": "decimal(12,2)", "born": "date"}
KEY_SCHEMA = {"type": "struct", "fields": [{"type": "int64", "field": "id"}], "name": "shop.customers.Key"}
SCHEMA = {
    "type": "struct",
    "name": "shop.customers.Envelope",
    "fields": [
        {
            "type": "struct",
            "field": "after",
            "fields": [
                {"type": "int64", "field": "id"},
                {"type": "string", "field": "name"},
                {
                    "type": "bytes",
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "parameters": {"scale": "2"},
                    "field": "price",
                },
                {"type": "int32", "name": "io.debezium.time.Date", "field": "born"},
            ],
        }
    ],
}


VALUE_IN_AVRO = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}]},
        {"name": "born", "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}]},
    ],
}
SOURCE_IN_AVRO = {
    "type": "record",
    "name": "Source",
    "fields": [
        {"name": "connector", "type": "string"},
        {"name": "lsn", "type": ["null", "long"]},
        {"name": "table", "type": "string"},
    ],
}
IN_AVRO = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop",
    "fields": [
        {"name": "before", "type": ["null", VALUE_IN_AVRO]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": SOURCE_IN_AVRO},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
    ],
}
KEY_IN_AVRO = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
PLAIN, WITH_SCHEMA, AVRO = "without schemas", "with schemas", "avro"


class Source:
    """A table of customers, and what a connector writes about it."""

    def __init__(self, form):
        self.rows = {}
        self.log = []
        self._lsn = 0
        self._form = form

    def _written(self, one, *, is_key):
        if self._form == AVRO:
            schema = KEY_IN_AVRO if is_key else IN_AVRO
            return framed(1 if is_key else 2, avro_records.written(schema, one))
        schema = KEY_SCHEMA if is_key else SCHEMA
        return json.dumps(
            {"schema": schema, "payload": one} if self._form == WITH_SCHEMA else one, separators=(",", ":")
        ).encode()

    def _send(self, key, value):
        self.log.append(
            (self._written({"id": key}, is_key=True), None if value is None else self._written(value, is_key=False))
        )

    def _change(self, op, key, after):
        self._lsn += 8
        source = {"connector": "postgresql", "lsn": self._lsn, "table": "customers"}
        before = None if op == "c" else {"id": key, "name": "", "price": None, "born": None}
        self._send(key, {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1})

    def put(self, key, name, cents, day, op=None):
        op = op or ("u" if key in self.rows else "c")
        self.rows[key] = (name, cents, day)
        price, born = f"{cents / 100:.2f}", f"1970-01-{day + 1:02}"
        if self._form == WITH_SCHEMA:
            price, born = b64encode(cents.to_bytes(4, signed=True)).decode(), day
        elif self._form == AVRO:
            price, born = Decimal(cents).scaleb(-2), day
        self._change(op, key, {"id": key, "name": name, "price": price, "born": born})

    def delete(self, key):
        del self.rows[key]
        self._change("d", key, None)
        self._send(key, None)

    def rename(self, key, new):
        """Change the primary key of a row."""
        name, cents, day = self.rows[key]
        self.delete(key)
        self.put(new, name, cents, day)

    def table(self):
        return {key: (name, cents, day) for key, (name, cents, day) in self.rows.items()}

    def at_random(self, rng, count):
        for _ in range(count):
            key = rng.randrange(6)
            if key in self.rows and rng.random() < 0.4:
                self.delete(key) if rng.random() < 0.6 or key + 10 in self.rows else self.rename(key, key + 10)
            else:
                self.put(key, f"n{rng.randrange(100)}", rng.randrange(10_000), rng.randrange(20))


def declare(loading, topic, *, order=("source_lsn",), tombstones="delete", batch_records=7, registry=None):
    frame = {"frame": "confluent"} if registry else {}
    value = {"format": "debezium", "columns": COLUMNS, "envelope": {"source.lsn": "bigint"}, **frame}
    loading.declare(
        topic,
        target=TARGET,
        batch_records=batch_records,
        sink={"mode": "upsert", "key": ["id"], "order": [*order]},
        key={"format": "debezium", "columns": {"id": "bigint"}, **frame},
        **({"registry": {"urls": [registry.url]}} if registry else {}),
        tombstones=tombstones,
        value=value,
    )


def produce(loading, topic, log):
    for key, value in log:
        records.produce(loading.bootstrap, topic, [value], keys=[key])


def output(loading):
    rows = loading.rows("SELECT id, name, (price * 100)::int, born - date '1970-01-01' FROM ads.output")
    return {key: tuple(rest) for key, *rest in rows}


@pytest.fixture
def registry():
    with SchemaRegistry() as server:
        server.register("shop-key", json.dumps(KEY_IN_AVRO))
        server.register("shop-value", json.dumps(IN_AVRO))
        yield server


@pytest.mark.parametrize("form", [WITH_SCHEMA, PLAIN, AVRO])
def test_the_target_equals_the_source_after_any_order_of_replays(loading, registry, form):
    rng = Random(7)
    source, topic = Source(form), records.create(loading.bootstrap)
    for key in range(4):
        source.put(key, "snapshot", key, key, op="r")
    source.at_random(rng, 25)
    produce(loading, topic, source.log)
    declare(loading, topic, registry=registry if form == AVRO else None)
    loading.run()
    assert output(loading) == source.table()
    # The connector was killed: it sends again from an older place, and goes on. Batches end in the middle of it.
    n_sent = len(source.log)
    source.at_random(rng, 15)
    produce(loading, topic, source.log[n_sent - 12 :])
    for batch in loading.run():
        assert batch
    assert output(loading) == source.table()
    batch_ids = [row[0] for row in loading.rows("SELECT batch_id FROM tideline.batch WHERE kind = 'live'")]
    for batch_id in rng.sample(batch_ids, 4):
        loading.run(OneBatch(batch_id=batch_id, replace=True), reason="again")
        assert output(loading) == source.table()
    counts = loading.counts()
    assert counts["n_rejected"] == counts["n_filtered"] == 0


def test_while_a_connector_sends_again_no_older_row_is_shown_and_no_deleted_one_comes_back(loading):
    source, topic = Source(WITH_SCHEMA), records.create(loading.bootstrap)
    source.put(1, "old", 1, 1)
    source.put(1, "new", 2, 2)
    source.put(2, "gone", 1, 1)
    source.delete(2)
    produce(loading, topic, source.log)
    declare(loading, topic)
    loading.run()
    assert output(loading) == source.table() == {1: ("new", 2, 2)}
    for key, value in [*source.log, source.log[2]]:  # each change by itself, as if a batch ended there
        produce(loading, topic, [(key, value)])
        loading.run()
        assert output(loading) == source.table()


MYSQL = [
    {"file": f"binlog.{file:06}", "pos": pos, "row": row} for file, pos, row in ((9, 900, 0), (9, 900, 1), (10, 4, 0))
]
SQL_SERVER = [
    {"commit_lsn": f"00000027:{commit}:0003", "change_lsn": f"00000027:{change}:0002", "event_serial_no": number}
    for commit, change, number in (
        ("00000758", "00000757", 1),
        ("00000758", "00000757", 2),
        ("0000075a", "00000759", 1),
    )
]
DDL = {
    "file": "text",
    "pos": "bigint",
    "row": "integer",
    "commit_lsn": "text",
    "change_lsn": "text",
    "event_serial_no": "bigint",
}
KINDS = {"text": "string", "integer": "int", "bigint": "bigint"}


@pytest.mark.parametrize("places", [MYSQL, SQL_SERVER], ids=["mysql", "sqlserver"])
def test_the_order_of_other_databases_and_keys_with_capital_letters_hold_when_changes_are_sent_again(loading, places):
    """Their envelopes are those that Debezium documents; the first change of each key is one that a snapshot has read."""
    names = [f"source_{name}" for name in places[0]]
    columns = ", ".join(f"source_{name} {DDL[name]} NOT NULL" for name in places[0])
    target = TARGET.replace("id bigint PRIMARY KEY", '"CustomerID" bigint PRIMARY KEY').replace(
        "source_lsn bigint NOT NULL", columns
    )
    topic = records.create(loading.bootstrap)
    loading.declare(
        topic,
        target=target,
        sink={"mode": "upsert", "key": ["CustomerID"], "order": names},
        key={"format": "debezium", "columns": {"CustomerID": "bigint"}},
        tombstones="delete",
        value={
            "format": "debezium",
            "columns": COLUMNS,
            "envelope": {f"source.{name}": KINDS[DDL[name]] for name in places[0]},
        },
    )

    def sent(key, op, name, source):
        after = None if op == "d" else {"CustomerID": key, "name": name, "price": None, "born": None}
        value = {"op": op, "before": None, "after": after, "source": source}
        return json.dumps({"CustomerID": key}).encode(), json.dumps(value).encode()

    snapshot = dict.fromkeys(places[0])
    log = [
        *(sent(key, "r", "snapshot", snapshot) for key in (1, 2)),
        sent(1, "u", "first", places[0]),
        sent(2, "u", "first", places[0]),
        sent(1, "u", "second", places[1]),
        sent(2, "d", None, places[1]),
        sent(1, "u", "last", places[2]),
    ]
    produce(loading, topic, log)
    loading.run()
    shown = 'SELECT "CustomerID", name FROM ads.output'
    assert loading.rows(shown) == [(1, "last")]
    for again in (
        log[4],
        log[3],
        log[0],
    ):  # each by itself, as if a batch ended there: also a row that was deleted later
        produce(loading, topic, [again])
        loading.run()
        assert loading.rows(shown) == [(1, "last")]
    assert loading.rejects() == {}


def test_a_change_that_is_none_of_a_row_is_a_reject_and_what_it_was_about_stays(loading):
    source, topic = Source(PLAIN), records.create(loading.bootstrap)
    source.put(1, "a", 1, 1)
    good = source.log[0]
    toast = json.loads(good[1])
    toast |= {"op": "u", "source": {"lsn": 99}}
    toast["after"] |= {"name": "__debezium_unavailable_value"}
    truncate = {"op": "t", "source": {"lsn": 100}, "after": None, "before": None}
    log = [good, (good[0], json.dumps(toast).encode()), (b"null", json.dumps(truncate).encode())]
    produce(loading, topic, log)
    records.produce(loading.bootstrap, topic, [good[1]])
    declare(loading, topic)
    loading.run()
    assert output(loading) == {1: ("a", 1, 1)}
    reasons = {offset: reason for (_, offset), (_, reason, _) in loading.rejects().items()}
    assert reasons[1].startswith("name: it was not changed and stands elsewhere (TOAST)")
    assert "the table was truncated (op t)" in reasons[2] or "key" in reasons[2]
    assert reasons[3] == "key is null"


def test_deletions_are_rejects_unless_they_are_declared(loading):
    source, topic = Source(PLAIN), records.create(loading.bootstrap)
    source.put(1, "a", 1, 1)
    source.delete(1)
    produce(loading, topic, source.log)
    declare(loading, topic, tombstones="reject")
    loading.run()
    assert output(loading) == {1: ("a", 1, 1)}
    assert {reason for _, reason, _ in loading.rejects().values()} == {
        "it deletes a row, and source.tombstones is reject: declare keep or delete"
    }


def test_a_table_of_marks_from_before_the_order_gets_its_columns(loading):
    source, topic = Source(PLAIN), records.create(loading.bootstrap)
    source.put(1, "a", 1, 1)
    source.delete(1)
    produce(loading, topic, source.log)
    declare(loading, topic, order=())
    loading.run()
    source.put(1, "b", 2, 2)
    source.put(2, "c", 2, 2)
    source.delete(2)
    produce(loading, topic, source.log[3:])
    declare(loading, topic)
    loading.run()
    assert output(loading) == source.table()
    assert loading.rows("SELECT id, source_lsn FROM ads.output__deleted ORDER BY id") == [(1, None), (2, 40)]


def test_an_order_that_deletions_do_not_say_is_a_mistake(loading):
    declare(loading, "ads", order=("born",))
    with pytest.raises(FatalError, match=r"with a sink\.order of columns that deletions have too"):
        pipelines.load(loading.folder)
