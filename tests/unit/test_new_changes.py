"""A new pipeline from changes of Debezium: it upserts the rows of the table, by its key, in the order of the database's log."""

import json

import pytest

import sampled_records
from avro_records import framed, written
from sampled_records import linted, newest, own_tests, surveyed
from tideline.authoring import target_sql
from tideline.authoring.scaffold import SourceConnection
from tideline.authoring.survey import survey
from tideline.authoring.surveyed_changes import column_type
from tideline.declaration import pipelines
from tideline.domain.schemas import Schema
from tideline.testing import trial

TIME = "io.debezium.time"
POSTGRES = {"connector": "postgresql", "lsn": 24023128, "txId": 565}
MYSQL = {"connector": "mysql", "file": "mysql-bin.000003", "pos": 484, "row": 0, "gtid": None}
SQL_SERVER = {
    "connector": "sqlserver",
    "change_lsn": "00000027:00000758:0003",
    "commit_lsn": "00000027:00000758:0005",
    "event_serial_no": 1,
}
ROW = {"orderId": 7, "name": "Ada", "amount": "BNI=", "born": 20_000, "seen": 1_795_000_000_000_000}
FIELDS = (
    {"field": "orderId", "type": "int64", "optional": False},
    {"field": "name", "type": "string"},
    {
        "field": "amount",
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "12"},
    },
    {"field": "born", "type": "int32", "name": f"{TIME}.Date"},
    {"field": "seen", "type": "int64", "name": f"{TIME}.MicroTimestamp"},
)
WITH_SCHEMA = {"orderId": "bigint", "name": "string", "amount": "decimal(12,2)", "born": "date", "seen": "timestamp"}


def change(op="c", row=ROW, source=POSTGRES):
    return {"op": op, "before": None, "after": None if op == "d" else row, "source": source, "ts_ms": 1}


def with_schema(payload, *fields):
    row = {"type": "struct", "field": "after", "fields": [*fields]}
    return {"schema": {"type": "struct", "fields": [row]}, "payload": payload}


def described(*changes):
    """Return the survey of changes that have the schema of the converter, as their keys have."""
    key = with_schema({"orderId": 7})["payload"]
    schema = {"type": "struct", "fields": [FIELDS[0]]}
    return surveyed(
        *(one and with_schema(one, *FIELDS) for one in changes),
        key=lambda _: json.dumps({"schema": schema, "payload": key}).encode(),
    )


def bare(*changes, key=b'{"orderId": 7}'):
    return surveyed(*changes, key=lambda _: key)


def declared(folder, seen, **more):
    return pipelines.load(sampled_records.written(folder, seen, **more))


def test_columns_are_those_of_the_schema_and_tombstones_delete(tmp_path):
    pipeline = declared(tmp_path, described(change(), change("u"), change("d"), None))
    source = pipeline.source
    assert {**source.key.columns, **source.value.columns} == WITH_SCHEMA
    assert (source.key.format, source.value.format, source.tombstones) == ("debezium", "debezium", "delete")
    sink = pipeline.table_sink
    assert (sink.mode, sink.key, sink.order) == ("upsert", ("orderId",), ("source_lsn",))


@pytest.mark.parametrize(
    ("source", "order"),
    [
        (POSTGRES, {"source.lsn": "bigint"}),
        (MYSQL, {"source.file": "string", "source.pos": "bigint", "source.row": "int"}),
        (
            SQL_SERVER,
            {"source.commit_lsn": "string", "source.change_lsn": "string", "source.event_serial_no": "bigint"},
        ),
        ({"connector": "other"}, {}),
    ],
    ids=["postgres", "mysql", "sqlserver", "other"],
)
def test_the_order_is_that_of_the_database_that_the_envelope_names(tmp_path, source, order):
    seen = described(change(source=source))
    pipeline = declared(tmp_path, seen)
    assert dict(pipeline.source.value.envelope) == order
    assert pipeline.table_sink.order == tuple(path.replace(".", "_") for path in order)
    assert any(doubt.subject == "order" for doubt in seen.doubts) == (not order)


def test_without_schemas_the_values_decide_and_that_is_doubted():
    seen = bare(change(row=ROW | {"amount": "12.50"}))
    kinds = {field.name: str(field.kind) for field in seen.fields}
    assert kinds == {"name": "string", "amount": "decimal(18,2)", "born": "bigint", "seen": "bigint"}
    assert any("without the schemas" in doubt.seen for doubt in seen.doubts)


@pytest.mark.parametrize("real", [True, False], ids=["real", "invented"])
def test_new_pipelines_pass_their_own_tests_and_fit_their_tables(tmp_path, real):
    surveys = {
        "described": described(change(), change("d"), None, change("u", ROW | {"name": "a\tb"})),
        "bare": bare(change(), change("r"), change("d"), None),
        "mysql": bare(change(source=MYSQL)),
        "unordered": bare(change(source={})),
        "two_keys": bare(change(row={"select": 1, "b_C": "x", "d": 1.5}), key=b'{"select": 1, "b_C": "x"}'),
    }
    for name, seen in surveys.items():
        pipeline = declared(tmp_path, seen, name=name, values=real)
        rows = trial(pipeline.folder, seen.good).table
        assert target_sql.read(pipeline).problems(rows.schema, pipeline) == [], name
    assert f"{3 * len(surveys)} passed" in own_tests(tmp_path)
    assert linted(tmp_path) == ""


def test_a_column_that_cannot_keep_its_name_is_renamed_but_not_that_of_a_key(tmp_path):
    row = {"orderId": 7, "placedAt": "2026-01-31T10:00:00Z", "source_lsn": 1}
    pipeline = declared(tmp_path, bare(change(row=row)))
    [made] = trial(pipeline.folder, bare(change(row=row)).good).rows
    assert made.keys() == {"orderId", "placed_at", "source_lsn"}
    assert '"orderId" bigint NOT NULL' in (pipeline.folder / "target.sql").read_text()


@pytest.mark.parametrize(
    ("key", "row", "said"),
    [
        (None, ROW, "not each has a key"),
        (b"seven", ROW, "not each has a key"),
        (b'{"orderId": 7}', {"orderId": 7}, "no column beside those of the key"),
        (b'{"b-c": 7}', {"b-c": 7, "name": "a"}, "other characters than letters"),
        (b'{"kafka": 7}', {"kafka": 7, "name": "a"}, "the record's position stands under this name"),
    ],
)
def test_changes_that_cannot_be_upserted_are_rows_of_json(tmp_path, key, row, said):
    seen = bare(change(row=row), key=key)
    assert seen.value_format == "json"
    assert any(said in doubt.seen for doubt in seen.doubts)
    assert declared(tmp_path, seen).table_sink.mode == "append"


def test_objects_with_other_fields_are_no_changes():
    assert surveyed({"op": "c", "after": {"id": 1}}, {"after": None}).value_format == "json"
    assert bare(change(), *[{"id": number} for number in range(3)]).value_format == "json"
    assert bare(change("d")).value_format == "json"  # what the rows look like is not known


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "int16"}, "smallint"),
        ({"type": "float"}, "float"),
        ({"type": "string", "name": "io.debezium.data.Json"}, "json"),
        ({"type": "string", "name": f"{TIME}.ZonedTimestamp"}, "timestamp"),
        ({"type": "int64", "name": f"{TIME}.MicroTime"}, "string"),
        ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, "string"),
        ({"type": "struct", "name": "io.debezium.data.geometry.Point"}, "json"),
        ({"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "0"}}, "string"),
        ({"type": "array", "items": {"type": "string"}}, "array<string>"),
        ({"type": "array", "items": {"type": "struct"}}, "json"),
        ({"type": "array"}, None),
        ({"type": "unheard of"}, None),
    ],
)
def test_a_schema_of_kafka_connect_has_this_column_type(schema, kind):
    found = column_type(schema)
    assert (found and str(found)) == kind


class Registered:
    """Two schemas of a registry."""

    def find(self, part, schema_ids):
        return {one: AVRO[one] for one in schema_ids}


NULLABLE_DATE = ["null", {"type": "int", "connect.name": f"{TIME}.Date"}]
AVRO_ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "orderId", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "born", "type": NULLABLE_DATE},
        {"name": "at", "type": {"type": "string", "connect.name": f"{TIME}.ZonedTimestamp"}},
        {"name": "about", "type": {"type": "string", "connect.name": "io.debezium.data.Json"}},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
    ],
}
AVRO_SOURCE = {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": ["null", "long"]}]}
AVRO_CHANGE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", AVRO_ROW]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": AVRO_SOURCE},
        {"name": "op", "type": "string"},
    ],
}
AVRO_KEY = {"type": "record", "name": "Key", "fields": [{"name": "orderId", "type": "long"}]}
AVRO = {
    number: Schema(kind="AVRO", text=json.dumps(text), references=(), subjects=())
    for number, text in {3: AVRO_KEY, 4: AVRO_CHANGE}.items()
}


def test_changes_in_avro_have_the_columns_of_their_schemas(tmp_path):
    row = {"orderId": 7, "name": "Ada", "born": 20_000, "at": "2026-01-31T10:00:00Z", "labels": {}, "about": "{}"}
    values = [
        framed(
            4,
            written(AVRO_CHANGE, {"op": op, "before": None, "after": None if op == "d" else row, "source": {"lsn": 5}}),
        )
        for op in "rcd"
    ]
    key = framed(3, written(AVRO_KEY, {"orderId": 7}))
    seen = survey("orders", newest(*values, None, key=lambda _: key), Registered())
    assert {doubt.subject for doubt in seen.doubts} == {"records"}
    registry = SourceConnection(servers="broker-1:9092", security={}, registry={"urls": ("http://registry:8081",)})
    pipeline = declared(tmp_path, seen, connection=registry)
    source = pipeline.source
    assert {**source.key.columns} == {"orderId": "bigint"}
    assert {**source.value.columns} == {
        "name": "string",
        "born": "date",
        "at": "timestamp",
        "labels": "json",
        "about": "json",
    }
    assert (source.key.frame, source.value.frame, pipeline.table_sink.order) == (
        "confluent",
        "confluent",
        ("source_lsn",),
    )
    assert "3 passed" in own_tests(tmp_path)
    assert linted(tmp_path) == ""
