"""Rows become Avro records: another library reads what was given, and what a schema cannot hold is refused."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from avro_records import framed
from tideline.domain.schemas import Schema
from tideline.formats import kinds
from tideline.formats.confluent_frame import framed as frame_of
from tideline.formats.encoder import UnencodableError

MOMENT = datetime(2026, 11, 28, 21, 7, 3, 250_000, UTC)


def record(*fields):
    return {"type": "record", "name": "Row", "fields": [{"name": name, **rest} for name, rest in fields]}


def of_type(kind, **rest):
    return record(("v", {"type": kind, **rest}))


def encoder(schema):
    return kinds.encoder("avro", Schema(kind="AVRO", text=json.dumps(schema)), None, frame_of(7))


def read(schema, written):
    """Return the records as fastavro reads them, each of which ends where its bytes end."""
    found = []
    parsed = fastavro.parse_schema(schema)
    for one in written.to_pylist():
        assert one[:5] == framed(7, b"")
        body = BytesIO(one[5:])
        found.append(fastavro.schemaless_reader(body, parsed))
        assert body.read() == b""
    return found


def values(schema, column):
    writer = encoder(schema)
    columns = {"v": pa.array(column) if isinstance(column, list) else column}
    assert writer.problems({name: one.type for name, one in columns.items()}) == []
    return [row["v"] for row in read(schema, writer.encoded(columns, len(columns["v"])))]


LOGICAL = [
    ({"type": "int", "logicalType": "date"}, pa.array([date(1969, 12, 31), date(9999, 12, 31)])),
    ({"type": "int", "logicalType": "time-millis"}, pa.array([time(0), time(23, 59, 59, 999_000)])),
    ({"type": "long", "logicalType": "time-micros"}, pa.array([time(0), time(23, 59, 59, 999_999)])),
    ({"type": "long", "logicalType": "timestamp-millis"}, pa.array([MOMENT], pa.timestamp("us", "UTC"))),
    ({"type": "long", "logicalType": "timestamp-micros"}, pa.array([MOMENT], pa.timestamp("ms", "UTC"))),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.array([datetime(1, 1, 1)])),  # noqa: DTZ001 - it is local
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        pa.array([Decimal("-1234567.89"), Decimal("0.00"), Decimal("1.28"), Decimal("-1.28")]),
    ),
    (
        {"type": "fixed", "name": "F", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2},
        pa.array([Decimal("-1234567.89"), Decimal("9999999.99")]),
    ),
]


@pytest.mark.parametrize(("kind", "column"), LOGICAL, ids=lambda one: str(one) if isinstance(one, dict) else "")
def test_logical_types_are_read_as_they_were_given(kind, column):
    assert values(of_type(kind), column) == column.to_pylist()


TEXT = st.text(st.characters(codec="utf-8"), max_size=200)
DRAWN = [
    ("boolean", st.booleans(), pa.bool_()),
    ("int", st.integers(-(2**31), 2**31 - 1), pa.int64()),
    ("long", st.integers(-(2**63), 2**63 - 1), pa.int64()),
    ("double", st.floats(allow_nan=False), pa.float64()),
    ("float", st.floats(width=32, allow_nan=False), pa.float32()),
    ("string", TEXT, pa.string()),
    ("bytes", st.binary(max_size=200), pa.binary()),
    (["null", "string"], st.none() | TEXT, pa.string()),
    (["long", "null"], st.none() | st.integers(-(2**63), 2**63 - 1), pa.int64()),
    ({"type": "array", "items": ["null", "int"]}, st.lists(st.none() | st.integers(-9, 9)), pa.list_(pa.int32())),
    (
        {"type": "array", "items": {"type": "array", "items": "string"}},
        st.lists(st.lists(TEXT, max_size=3), max_size=3),
        pa.list_(pa.list_(pa.string())),
    ),
]


@pytest.mark.parametrize(
    ("kind", "drawn", "arrow"), DRAWN, ids=lambda one: "" if isinstance(one, st.SearchStrategy) else str(one)
)
@given(data=st.data())
def test_another_library_reads_the_values_that_were_given(kind, drawn, arrow, data):
    given_values = data.draw(st.lists(drawn, min_size=1, max_size=20))
    start = data.draw(st.integers(0, len(given_values) - 1))
    assert values(of_type(kind), pa.array(given_values, arrow)[start:]) == given_values[start:]


NESTED = record(
    (
        "v",
        {
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Inner",
                    "fields": [
                        {"name": "n", "type": "long"},
                        {"name": "words", "type": {"type": "map", "values": ["null", "string"]}},
                        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
                        {"name": "more", "type": {"type": "array", "items": "Color"}},
                    ],
                },
            ]
        },
    )
)
INNER = pa.struct(
    [
        ("more", pa.list_(pa.string())),
        ("n", pa.int32()),
        ("words", pa.map_(pa.string(), pa.string())),
        ("color", pa.string()),
    ]
)


def test_records_in_records_with_maps_enums_and_arrays_are_written_wherever_they_are_cut():
    rows = [
        None,
        {"more": [], "n": 1, "words": [("a", "b"), ("c", None)], "color": "BLUE"},
        {"more": ["RED", "BLUE"], "n": -1, "words": [], "color": "RED"},
        None,
    ]
    expected = [one and one | {"words": dict(one["words"])} for one in rows]
    column = pa.array(rows, INNER)
    assert values(NESTED, column) == expected
    assert [values(NESTED, column[at : at + 1]) for at in range(4)] == [[one] for one in expected]
    assert values(NESTED, column[2:]) == expected[2:]


def test_a_field_without_a_column_has_the_default_of_the_schema():
    schema = record(
        ("v", {"type": "int"}),
        ("n", {"type": ["null", "string"], "default": None}),
        ("t", {"type": "string", "default": "a"}),
        ("l", {"type": {"type": "array", "items": "int"}, "default": []}),
        ("d", {"type": "double", "default": 1}),
    )
    assert read(schema, encoder(schema).encoded({"v": pa.array([1, 2])}, 2)) == [
        {"v": number, "n": None, "t": "a", "l": [], "d": 1.0} for number in (1, 2)
    ]


REFUSED = [
    ("int", pa.array([2**31]), "not in range"),
    ("int", pa.array([None], pa.int32()), "expected a value, which the schema requires, found null"),
    ("long", pa.array([2**63], pa.uint64()), "not in range"),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        pa.array([datetime(2026, 1, 1, 0, 0, 0, 1, UTC)]),
        "lose data",
    ),
    ({"type": "string", "logicalType": "uuid"}, pa.array(["no"]), "expected a UUID"),
    ({"type": "fixed", "name": "F", "size": 2}, pa.array([b"abc"]), "expected the 2 bytes of fixed F"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.array(["B"]), "expected a symbol of enum E"),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
        pa.array([Decimal("1.25")]),
        "would cause data loss",
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
        pa.array([Decimal("100.0")]),
        "does not fit in precision",
    ),
    ({"type": "array", "items": "int"}, pa.array([[None]], pa.list_(pa.int32())), "expected a value"),
]


@pytest.mark.parametrize(("kind", "column", "reason"), REFUSED, ids=lambda one: str(one)[:40])
def test_a_value_that_the_schema_cannot_hold_is_refused_and_never_changed(kind, column, reason):
    writer = encoder(of_type(kind))
    assert writer.problems({"v": column.type}) == []
    with pytest.raises(UnencodableError, match=f"column v: .*{reason}"):
        writer.encoded({"v": column}, len(column))


MISFITS = [
    ("int", pa.string(), "v: the schema has int, which Arrow type string does not fill"),
    ("float", pa.float64(), "v: the schema has float, which Arrow type double does not fill"),
    (["int", "string"], pa.int32(), "union of int, string, and a column does not say which of them a value is"),
    ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us"), "does not fill"),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us", "UTC"), "does not fill"),
    ({"type": "array", "items": "int"}, pa.list_(pa.string()), "v[]: the schema has int"),
    ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.string()), "v{}: the schema has int"),
    ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, pa.binary(), "does not fill"),
    (
        record(("a", {"type": "int"})) | {"name": "In"},
        pa.struct([("b", pa.int32())]),
        "v.b: the schema has no such field",
    ),
]


@pytest.mark.parametrize(("kind", "arrow", "problem"), MISFITS, ids=lambda one: str(one)[:40])
def test_types_that_do_not_fit_are_named_before_anything_is_read(kind, arrow, problem):
    assert any(problem in one for one in encoder(of_type(kind)).problems({"v": arrow}))


def test_a_column_without_a_field_and_a_field_without_a_column_are_problems():
    schema = record(("v", {"type": "int"}), ("b", {"type": "bytes", "default": "a"}))
    assert encoder(schema).problems({"w": pa.int32()}) == [
        "w: the schema has no such field",
        "v: missing, and the schema has no default for it",
        "b: missing, and a default of bytes is not written",
    ]
