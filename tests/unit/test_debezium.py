"""Changes of Debezium become rows, deletions or rejects, each by itself, and every value is what the schema of its connector says."""

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from avro_records import framed, written
from debezium_records import CHANGES, SCHEMAS
from format_contract import Given, outcomes
from format_contract import decoded as decoded_of
from tideline.declaration.source import Value
from tideline.domain.schemas import NoSchemas, Schema
from tideline.formats import kinds
from tideline.formats.debezium import connect_values
from tideline.formats.format import RawRecords

COLUMNS = {"id": "bigint", "name": "string"}


def decoder(columns=COLUMNS, **more):
    section = {"format": "debezium", "columns": columns, **more}
    return kinds.declared(Value.model_validate(section), None).decoder(NoSchemas())


def decoded(records, columns=COLUMNS, **more):
    values = pa.array(
        [one if one is None or isinstance(one, bytes) else json.dumps(one).encode() for one in records], pa.binary()
    )
    return decoder(columns, **more)(RawRecords(part="value", keys=values, values=values))


def change(op, after=None, before=None, **source):
    return {"op": op, "before": before, "after": after, "source": {"lsn": 5, **source}, "ts_ms": 1}


def outcome(record, columns=COLUMNS, **more):
    """Return the row of one record, "deleted", or the reason of its reject."""
    found = decoded([record], columns, **more)
    [said] = [*found.table.to_pylist(), *found.rejected.values(), *["deleted"] * len(found.deletions.positions)]
    return said


ROW = {"id": 1, "name": "a"}
UNTOLD = "__debezium_unavailable_value"


@pytest.mark.parametrize("op", ["c", "u", "r"])
def test_a_change_that_leaves_a_row_is_this_row(op):
    assert outcome(change(op, ROW, {"id": 1, "name": "before"})) == ROW


def test_deletions_and_tombstones_delete_and_say_where_they_stand():
    records = [change("c", ROW), change("d", before=ROW, lsn=7), None, change("u", ROW, lsn=9), b"{bad", None]
    found = decoded(records, envelope={"source.lsn": "bigint", "op": "string"})
    assert found.kept.to_pylist() == [0, 3]
    assert found.table.to_pylist() == [ROW | {"source_lsn": 5, "op": "c"}, ROW | {"source_lsn": 9, "op": "u"}]
    assert found.deletions.positions.to_pylist() == [1, 2, 5]
    assert found.deletions.table.to_pylist() == [
        {"source_lsn": 7, "op": "d"},
        {"source_lsn": None, "op": None},
        {"source_lsn": None, "op": None},
    ]
    assert [*found.rejected] == [4]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (change("t"), "the table was truncated (op t): the rows that it had are still in the output"),
        (change("m"), "a message of an application (op m) is no change of a row"),
        (change("x"), "expected op c, u, r or d, found 'x'"),
        (change(1), "expected op c, u, r or d, found 1"),
        (
            ROW,
            "expected a change with op; records without one, as ExtractNewRecordState makes them, are of the format json or avro",
        ),
        (change("u"), "expected an object in after: the row that the change (op u) leaves"),
        (change("u", [1]), "expected an object in after: the row that the change (op u) leaves"),
        (change("u", {"id": "x", "name": "a"}), "id: expected bigint, found string 'x'"),
        (b"", "value is empty: expected a JSON object"),
        (b"[]", "expected a JSON object, found an array"),
        ({"schema": None, "payload": None}, "expected an object in payload"),
        ({"schema": 1, "payload": change("u", ROW)}, "the schema is not one of Kafka Connect: expected an object"),
    ],
)
def test_what_is_no_change_of_a_row_is_a_reject(record, reason):
    assert outcome(record) == reason


@pytest.mark.parametrize(
    "value",
    [
        "__debezium_unavailable_value",
        base64.b64encode(b"__debezium_unavailable_value").decode(),
        ["__debezium_unavailable_value"],
        {"__debezium_unavailable_value": "__debezium_unavailable_value"},
    ],
)
def test_a_value_that_the_database_did_not_tell_never_overwrites_one(value):
    assert outcome(change("u", ROW | {"name": value})).startswith(
        "name: it was not changed and stands elsewhere (TOAST)"
    )
    assert outcome(change("u", ROW | {"other": value})) == ROW, "no column takes it"


def test_numbers_with_a_point_are_no_decimals():
    columns = {"id": "bigint", "price": "decimal(12,2)"}
    assert outcome(change("u", {"id": 1, "price": "1.50"}), columns) == {"id": 1, "price": Decimal("1.50")}
    assert outcome(change("u", {"id": 1, "price": 7}), columns) == {"id": 1, "price": Decimal("7.00")}
    for number in (b"1.5", b"123456789012345678901234567890"):
        record = b'{"op": "u", "after": {"id": 1, "price": %s}}' % number
        assert outcome(record, columns).startswith("price: expected an exact decimal, found a number with a point")


def field(name, kind, *, of=None, **more):
    return {"type": kind, "optional": True, "field": name, **({"name": of} if of else {}), **more}


def with_schema(record, *fields):
    row = {"type": "struct", "fields": list(fields), "optional": True, "field": "after"}
    schema = {"type": "struct", "fields": [row, field("op", "string")], "optional": False, "name": "shop.Envelope"}
    return {"schema": schema, "payload": record}


def unscaled(number):
    return base64.b64encode(number.to_bytes((number.bit_length() + 8) // 8, signed=True)).decode()


DECIMAL, TIME = "org.apache.kafka.connect.data.Decimal", "io.debezium.time"
VALUES = [
    ("decimal(12,2)", field("x", "bytes", of=DECIMAL, parameters={"scale": "2"}), unscaled(-12345), Decimal("-123.45")),
    ("decimal(12,2)", field("x", "bytes", of=DECIMAL, parameters={"scale": "2"}), unscaled(5), Decimal("0.05")),
    ("decimal(12,2)", field("x", "bytes", of=DECIMAL, parameters={"scale": "0"}), unscaled(0), Decimal("0.00")),
    ("decimal(12,2)", field("x", "bytes", of=DECIMAL, parameters={"scale": "-2"}), unscaled(3), Decimal("300.00")),
    ("string", field("x", "bytes", of=DECIMAL, parameters={"scale": "2"}), unscaled(-5), "-0.05"),
    (
        "string",
        field("x", "struct", of="io.debezium.data.VariableScaleDecimal"),
        {"scale": 1, "value": unscaled(15)},
        "1.5",
    ),
    ("date", field("x", "int32", of=f"{TIME}.Date"), -1, date(1969, 12, 31)),
    ("date", field("x", "string", of=f"{TIME}.IsoDate"), "1990-02-03Z", date(1990, 2, 3)),
    ("timestamp", field("x", "int64", of=f"{TIME}.Timestamp"), 1, datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)),
    (
        "timestamp",
        field("x", "int64", of=f"{TIME}.MicroTimestamp"),
        -1,
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    ),
    ("timestamp", field("x", "int64", of=f"{TIME}.NanoTimestamp"), 5000, datetime(1970, 1, 1, 0, 0, 0, 5, UTC)),
    (
        "timestamp",
        field("x", "string", of=f"{TIME}.ZonedTimestamp"),
        "2026-01-01T10:00:00Z",
        datetime(2026, 1, 1, 10, tzinfo=UTC),
    ),
    ("string", field("x", "int64", of=f"{TIME}.MicroTime"), 3_600_000_001, "01:00:00.000001"),
    ("string", field("x", "int64", of=f"{TIME}.MicroTime"), 86_400_000_000, "24:00:00"),
    ("json", field("x", "string", of="io.debezium.data.Json"), '{"a": [1.50, null]}', '{"a": [1.50, null]}'),
    ("string", field("x", "string", of="io.debezium.data.Json"), '{"a":1}', '{"a":1}'),
    (
        "array<date>",
        field("x", "array", items={"type": "int32", "name": f"{TIME}.Date"}),
        [0, None],
        [date(1970, 1, 1), None],
    ),
    (
        "struct<d: date, n: int>",
        field("x", "struct", fields=[field("d", "int32", of=f"{TIME}.Date"), field("n", "int32")]),
        {"d": 1, "n": 2},
        {"d": date(1970, 1, 2), "n": 2},
    ),
    ("string", field("x", "bytes"), "AAE=", "AAE="),
    ("int", field("x", "int32"), 7, 7),
    ("date", field("x", "int32", of=f"{TIME}.Date"), None, None),
]


@pytest.mark.parametrize(("kind", "schema", "value", "expected"), VALUES, ids=lambda one: str(one)[:30])
def test_a_value_is_what_the_schema_of_its_connector_says(kind, schema, value, expected):
    record = with_schema(change("u", {"id": 1, "x": value}), field("id", "int64"), schema)
    assert outcome(record, {"id": "bigint", "x": kind}) == {"id": 1, "x": expected}


@pytest.mark.parametrize(
    ("kind", "schema", "value", "reason"),
    [
        (
            "date",
            field("x", "int32", of=f"{TIME}.Date"),
            -2147472691,
            "x: day -2147472691 since 1970 is not in the years 1 to 9999",
        ),
        (
            "timestamp",
            field("x", "int64", of=f"{TIME}.MicroTimestamp"),
            9223371331200000000,
            "x: 9223371331200000000 is not in the years",
        ),
        (
            "timestamp",
            field("x", "int64", of=f"{TIME}.NanoTimestamp"),
            5,
            "x: 5 nanoseconds since 1970 are finer than a microsecond",
        ),
        (
            "decimal(4,2)",
            field("x", "bytes", of=DECIMAL, parameters={"scale": "2"}),
            unscaled(12345),
            "x: expected decimal(4,2)",
        ),
        (
            "decimal(4,2)",
            field("x", "bytes", of=DECIMAL, parameters={"scale": "2"}),
            "?",
            "x: expected a decimal in base64",
        ),
        (
            "decimal(4,2)",
            field("x", "bytes", of=DECIMAL),
            unscaled(1),
            "the schema is not one of Kafka Connect: expected the scale",
        ),
        ("date", field("x", "int32", of=f"{TIME}.Date"), True, "x: expected an integer"),
        ("json", field("x", "string", of="io.debezium.data.Json"), "{", "x: not valid JSON"),
        ("array<date>", field("x", "array"), [1], "the schema is not one of Kafka Connect: expected items of an array"),
    ],
)
def test_a_value_that_is_none_of_its_schema_is_a_reject(kind, schema, value, reason):
    record = with_schema(change("u", {"id": 1, "x": value}), field("id", "int64"), schema)
    assert outcome(record, {"id": "bigint", "x": kind}).startswith(reason)


def test_values_that_no_column_takes_are_not_looked_at():
    schema = field("x", "int32", of=f"{TIME}.Date")
    assert outcome(with_schema(change("u", ROW | {"x": -2147472691}), field("id", "int64"), schema)) == ROW


@pytest.mark.parametrize(
    "dumps", [lambda one: json.dumps(one).encode(), lambda one: json.dumps(one, separators=(",", ":")).encode()]
)
def test_a_schema_is_found_however_it_is_written(dumps):
    tricky = ROW | {"payload": {"a": ',"payload":1}'}, "d": 1}
    fields = [field("id", "int64"), field("d", "int32", of=f"{TIME}.Date")]
    records = [with_schema(change("u", tricky | {"id": n}), *fields) for n in range(3)]
    other = {"payload": records[1]["payload"], "schema": records[1]["schema"]}
    found = decoded([dumps(records[0]), dumps(other), dumps(records[2])], {"id": "bigint", "d": "date"})
    assert found.table.to_pylist() == [{"id": n, "d": date(1970, 1, 2)} for n in range(3)]
    assert {name: one.n_records for name, one in found.undeclared.items()} == {"name": 3, "payload": 3}


def test_the_place_of_a_row_of_a_snapshot_is_before_all_changes():
    envelope = {"source.lsn": "bigint", "source.change_lsn": "string", "ts_ms": "bigint"}
    snapshot = {"op": "r", "after": ROW, "source": {"lsn": None}, "ts_ms": None}
    assert outcome(snapshot, envelope=envelope) == ROW | {"source_lsn": 0, "source_change_lsn": "", "ts_ms": None}
    assert outcome(snapshot | {"op": "c"}, envelope=envelope)["source_lsn"] is None


def test_a_task_remembers_a_bounded_number_of_schemas():
    decode = decoder({"id": "bigint"})
    for number in range(300):
        record = with_schema(change("u", {"id": number}), field("id", "int64"), field(f"f{number}", "int32"))
        values = pa.array([json.dumps(record, separators=(",", ":")).encode()])
        assert decode(RawRecords(part="value", keys=values, values=values)).table.to_pylist() == [{"id": number}]


def test_no_schema_makes_an_unbounded_text():
    with pytest.raises(connect_values.ConnectValueError, match="expected a decimal with its scale"):
        connect_values.saying({"name": "io.debezium.data.VariableScaleDecimal"})({"scale": 10**9, "value": "AA=="})
    with pytest.raises(connect_values.ConnectValueError, match="expected the scale"):
        connect_values.saying({"name": DECIMAL, "parameters": {"scale": "-1000000000"}})


def test_the_columns_of_the_key_are_no_undeclared_fields_of_the_row():
    section = Value.model_validate({"format": "debezium", "columns": {"name": "string"}, "unknown": "reject"})
    decode = kinds.declared(section, None).beside_key(("id",)).decoder(NoSchemas())
    values = pa.array([json.dumps(change("u", one)).encode() for one in (ROW, ROW | {"more": 1})])
    found = decode(RawRecords(part="value", keys=values, values=values))
    assert found.table.to_pylist() == [{"name": "a"}]
    assert "more" in found.rejected[1]
    assert [*found.undeclared] == ["more"]


AVRO = {"id": "bigint", "name": "string", "price": "decimal(12,2)", "day": "date", "at": "timestamp"}
AFTER = {"id": 1, "name": "a", "price": Decimal("1.50"), "day": 1, "at": "2026-01-01T10:00:00.5Z"}
AVRO_ROW = AFTER | {"day": date(1970, 1, 2), "at": datetime(2026, 1, 1, 10, 0, 0, 500_000, UTC)}


def in_avro(changes, columns=AVRO, *, schema_id=31, key=(), **more):
    """Decode changes that were written with a schema of the contract."""
    records = [None if one is None else framed(schema_id, written(CHANGES[schema_id], one)) for one in changes]
    section = {"format": "debezium", "frame": "confluent", "columns": columns, **more}
    given = kinds.declared(Value.model_validate(section), None).beside_key(key)
    values = pa.array(records, pa.binary())
    return given.decoder(Given(SCHEMAS))(RawRecords(part="value", keys=values, values=values))


def avro_change(op, lsn=5, **after):
    row = {**AFTER, "more": 1, **after}
    return {
        "op": op,
        "before": None,
        "after": row if op in "cur" else None,
        "ts_ms": 1,
        "source": {"db": "shop", "lsn": lsn},
    }


def test_changes_in_avro_are_rows_deletions_and_rejects():
    changes = [
        avro_change("c"),
        avro_change("d", 7),
        None,
        avro_change("t"),
        avro_change("u", 9, name="b"),
        avro_change("r", None),
    ]
    found = in_avro(changes, envelope={"source.lsn": "bigint", "op": "string"}, key=("id",))
    assert found.kept.to_pylist() == [0, 4, 5]
    assert found.table.to_pylist() == [
        AVRO_ROW | {"source_lsn": 5, "op": "c"},
        AVRO_ROW | {"name": "b", "source_lsn": 9, "op": "u"},
        AVRO_ROW | {"source_lsn": 0, "op": "r"},
    ]
    assert found.deletions.positions.to_pylist() == [1, 2]
    assert found.deletions.table.to_pylist() == [{"source_lsn": 7, "op": "d"}, {"source_lsn": None, "op": None}]
    assert found.rejected == {3: "the table was truncated (op t): the rows that it had are still in the output"}
    assert {name: one.n_records for name, one in found.undeclared.items()} == {"more": 5}


def test_without_an_envelope_changes_in_avro_have_the_columns_of_their_rows():
    found = in_avro([avro_change("c"), avro_change("d"), None], {"id": "bigint"})
    assert found.table.to_pylist() == [{"id": 1}]
    assert (found.deletions.positions.to_pylist(), found.deletions.table.column_names) == ([1, 2], [])


def test_a_value_in_avro_that_the_database_did_not_tell_never_overwrites_one():
    found = in_avro([avro_change("u", name="__debezium_unavailable_value"), avro_change("u")])
    assert found.kept.to_pylist() == [1]
    assert found.rejected[0].startswith("name: it was not changed and stands elsewhere (TOAST)")


@pytest.mark.parametrize("value", [UNTOLD, [UNTOLD], {UNTOLD: UNTOLD}, base64.b64encode(UNTOLD.encode()).decode()])
def test_no_column_of_json_and_none_for_all_other_fields_holds_a_value_that_the_database_did_not_tell(value):
    about = outcome(change("u", ROW | {"about": value}), COLUMNS | {"about": "json"})
    kept = outcome(change("u", ROW | {"about": value}), unknown="keep")
    assert [one.split(":")[0] for one in (about, kept)] == ["about", "about"]
    assert outcome(change("u", ROW | {"about": "told"}), unknown="keep") == ROW | {"unknown_fields": '{"about":"told"}'}


def test_in_avro_neither():
    whole = in_avro([avro_change("u", name=UNTOLD), avro_change("u")], {"id": "bigint", "name": "json"})
    rest = in_avro([avro_change("u", name=UNTOLD), avro_change("u")], {"id": "bigint"}, unknown="keep")
    for found in (whole, rest):
        assert found.kept.to_pylist() == [1]
        assert found.rejected[0].startswith("name: it was not changed and stands elsewhere (TOAST)")


def test_what_is_kept_of_rows_in_avro_has_neither_the_key_nor_the_columns():
    found = in_avro(
        [avro_change("u"), avro_change("d")], {"name": "string", "day": "json"}, key=("id",), unknown="keep"
    )
    rest = '{"price":1.50,"at":"2026-01-01T10:00:00.5Z","more":1}'
    assert found.table.to_pylist() == [{"name": "a", "day": '"1970-01-02"', "unknown_fields": rest}]
    assert found.deletions.positions.to_pylist() == [1]


DOCUMENT = {"type": "string", "connect.name": "io.debezium.data.Json"}
OF_DOCUMENTS = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {
            "name": "after",
            "type": {
                "type": "record",
                "name": "Row",
                "fields": [
                    {"name": "j", "type": ["null", DOCUMENT]},
                    {"name": "more", "type": {"type": "array", "items": "int"}},
                ],
            },
        },
        {"name": "op", "type": "string"},
    ],
}


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ('{"a" : 1.10}', "json", '{"a" : 1.10}'),
        ('{"a" : 1.10}', "string", '{"a" : 1.10}'),
        (None, "json", None),
        ("{", "json", "j: not valid JSON"),
        ('"\\u0000"', "json", "j: text holds U+0000"),
    ],
)
@pytest.mark.parametrize("count", [0, 100], ids=["together", "by itself"])
def test_json_of_a_database_is_json_in_avro_too(text, kind, expected, count):
    record = framed(1, written(OF_DOCUMENTS, {"after": {"j": text, "more": [1] * count}, "op": "u"}))
    section = {"format": "debezium", "frame": "confluent", "columns": {"j": kind}}
    given = Given({1: Schema(kind="AVRO", text=json.dumps(OF_DOCUMENTS))})
    [found] = outcomes(decoded_of(kinds.declared(Value.model_validate(section), None), [record], given), 1)
    assert (found[: len(expected)] if isinstance(found, str) else found["j"]) == expected


def test_fields_of_rows_in_avro_that_are_not_declared_may_be_refused():
    names = {name: kind for name, kind in AVRO.items() if name != "id"}
    found = in_avro([avro_change("u")], names, key=("id",), unknown="reject")
    assert "fields that are not declared, as unknown: reject says: more" in found.rejected[0]
    assert in_avro([avro_change("u")], names, key=("id", "more"), unknown="reject").rejected == {}
    assert in_avro([avro_change("u")], names, schema_id=30, key=("id",), unknown="reject").rejected == {}


def test_a_timestamp_in_text_is_judged_as_in_json():
    found = in_avro([avro_change("u", at="2026-01-01T10:00:00"), avro_change("u")])
    assert found.rejected == {0: "at: expected a timestamp with a zone, to the microsecond"}
    assert found.table.to_pylist() == [AVRO_ROW]


def test_a_schema_is_compared_with_the_columns_of_the_row():
    section = {"format": "debezium", "frame": "confluent", "columns": {"name": "string", "age": "int"}}
    given = kinds.declared(Value.model_validate(section), None).beside_key(("id",))
    fit = given.compared(SCHEMAS[30])
    assert (fit.reason, fit.undeclared, fit.absent) == (None, ("price", "day", "at"), ("age",))
    wrong = kinds.declared(Value.model_validate(section | {"columns": {"name": "int"}}), None)
    assert "after: name: expected int" in wrong.compared(SCHEMAS[30]).reason
