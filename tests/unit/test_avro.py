"""Avro: which writer's types fill which columns, and that records with long arrays are decoded as all others are."""

import json
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from random import Random

import fastavro
import pyarrow as pa
import pytest

import avro_records
from avro_records import framed
from format_contract import AVRO_COLUMNS, AVRO_SCHEMA, CASES, Given, avro_format, decoded, mutated, outcomes
from tideline.domain.columns import parse_type
from tideline.domain.reject_reasons import one_line
from tideline.domain.schemas import NoSchemas, Schema
from tideline.formats.arrow_types import arrow_type
from tideline.formats.avro import one_by_one
from tideline.formats.avro.avro_format import RegisteredAvroFormat
from tideline.formats.avro.schema import SchemaError, parsed
from tideline.formats.reader import Reader

UUID = "00000000-0000-0000-0000-000000000000"
COLUMNS = {name: parse_type(kind) for name, kind in AVRO_COLUMNS.items()}
[AVRO] = [case for case in CASES if case.name == "avro"]


def written(schema, *rows):
    return [avro_records.written(schema, row) for row in rows]


def record(**types):
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in types.items()]}


def decimal(precision, **kind):
    return {"type": "bytes", **kind, "logicalType": "decimal", "precision": precision, "scale": 2}


def read(schema, records, **columns):
    kinds = {name: parse_type(kind) for name, kind in columns.items()}
    reader = Reader(columns=kinds, aliases={}, defaults={})
    text = json.dumps(schema)
    found = decoded(
        RegisteredAvroFormat(reader), [framed(1, one) for one in records], Given({1: Schema(kind="AVRO", text=text)})
    )
    return outcomes(found, len(records))


@pytest.mark.parametrize("seed", range(4))
def test_a_record_by_itself_is_what_it_is_among_others(seed):
    """Which of the two ways a record goes depends on its arrays, so both must say the same of every record."""
    rng = Random(seed)
    records = [rng.choice([one, mutated(rng, one)]) for one in (AVRO.draw(rng)[0] for _ in range(1_500))]
    schema = parsed(json.dumps(AVRO_SCHEMA))
    together = outcomes(decoded(avro_format(), records, NoSchemas()), len(records))
    for record_, expected in zip(records, together, strict=True):
        assert alone(record_, schema) == expected, record_


def alone(data, schema):
    try:
        row = one_by_one.row_of(data, schema, COLUMNS)
    except one_by_one.FaultError as error:
        return one_line(str(error))
    [typed] = pa.table({name: pa.array([row[name]], arrow_type(kind)) for name, kind in COLUMNS.items()}).to_pylist()
    return typed


def test_what_another_decoder_refuses_is_refused():
    """Columns that are not declared are read over, and what is in them is not judged: so all are declared here."""
    rng = Random(9)
    fields = record(a="long", b=["null", "string"], c={"type": "array", "items": "int"}, d="double", e="boolean")
    known = fastavro.parse_schema(fields)
    good = [
        written(
            fields,
            {"a": rng.randrange(10**9), "b": rng.choice([None, "x"]), "c": [1] * rng.randrange(3), "d": 0.5, "e": True},
        )[0]
        for _ in range(2_000)
    ]
    records = [mutated(rng, one) for one in good]
    found = read(fields, records, a="bigint", b="string", c="array<int>", d="double", e="boolean")
    n_both = 0
    for data, outcome in zip(records, found, strict=True):
        rest = BytesIO(data)
        try:
            row = fastavro.schemaless_reader(rest, known, None)
        except Exception:  # noqa: BLE001 - it raises many kinds
            row = None
        if isinstance(outcome, dict):
            assert row == outcome, data
            assert not rest.read(), data
            n_both += 1
    assert n_both > 100


@pytest.mark.parametrize(
    ("writer", "value", "column", "expected"),
    [
        ("int", 7, "bigint", 7),
        ("int", 7, "double", 7.0),
        ("long", 7, "float", 7.0),
        ("long", 2**15 - 1, "smallint", 2**15 - 1),
        ("long", 2**15, "smallint", "x: the number is too large for smallint"),
        ("long", -(2**31) - 1, "int", "x: the number is too large for int"),
        ("long", 12, "decimal(4,2)", Decimal("12.00")),
        ("long", 123, "decimal(4,2)", "x: the number does not fit decimal(4,2)"),
        ("float", 0.5, "double", 0.5),
        ("double", float("nan"), "double", "x: the number is not finite"),
        ("double", float("-inf"), "double", "x: the number is not finite"),
        ("string", "a\0b", "string", "x: text holds U+0000, which PostgreSQL cannot store"),
        ({"type": "string", "logicalType": "uuid"}, UUID, "string", UUID),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "string", "B"),
        ({"type": "int", "logicalType": "date"}, date(2026, 1, 31), "date", date(2026, 1, 31)),
        ({"type": "int", "logicalType": "date"}, 2_932_897, "date", "x: the date is outside of the years 1 to 9999"),
        ({"type": "int", "logicalType": "date"}, date(1970, 1, 3), "int", 2),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1, "timestamp", datetime(1970, 1, 1, 0, 0, 0, 1_000, UTC)),
        ({"type": "long", "logicalType": "timestamp-micros"}, -1, "timestamp", datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
        ({"type": "long", "logicalType": "timestamp-micros"}, 2**62, "timestamp", "x: the timestamp is outside of the years 1 to 9999"),
        ({"type": "long", "logicalType": "time-micros"}, 5, "bigint", 5),
        (["null", "long", "string"], 5, "bigint", 5),
        (["null", "long", "string"], None, "bigint", None),
        (["null", "long", "string"], "five", "bigint", "x: expected bigint, found string"),
        ({"type": "array", "items": ["null", "int"]}, [1, None], "array<int>", [1, None]),
        (decimal(6, type="fixed", name="f", size=5), Decimal("-1.25"), "decimal(9,3)", Decimal("-1.250")),
        (decimal(4), Decimal("1.25"), "decimal(3,1)", "x: the number does not fit decimal(3,1)"),
    ],
)  # fmt: skip
def test_a_value_fills_a_column_as_avro_promotes_it_and_else_where_nothing_is_lost(writer, value, column, expected):
    schema = record(x=writer)
    [found] = read(schema, written(schema, {"x": value}), x=column)
    assert found == (expected if isinstance(expected, str) and ":" in expected else {"x": expected})


@pytest.mark.parametrize(
    ("writer", "column", "reason"),
    [
        ("string", "bigint", "x: expected bigint, the schema has string"),
        ("double", "float", "x: expected float, the schema has double"),
        ("bytes", "string", "x: expected string, the schema has bytes"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp", "the schema has long (local-timestamp-micros)"),
        ({"type": "map", "values": "int"}, "array<int>", "the schema has map of int"),
        (["null", "string"], "boolean", "the schema has union of null, string"),
        ({"type": "array", "items": "string"}, "array<int>", "x: []: expected int, the schema has string"),
        ({"type": "array", "items": "null"}, "array<int>", "an array of items without bytes, which cannot be read"),
        ({**record(y="string"), "name": "s"}, "struct<y: int>", "x: y: expected int, the schema has string"),
    ],
)  # fmt: skip
def test_a_schema_that_fills_no_column_makes_each_of_its_records_a_reject(writer, column, reason):
    found = read(record(x=writer), [b"", b"\0\0"], x=column)
    assert [reason in one for one in found] == [True, True]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "expected an Avro schema in JSON"),
        ("[" * 100_000, "nested too deep"),
        ('"string"', "expected a record, found string"),
        ('{"type": "record", "name": "r"}', "expected fields"),
        ('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "nothing"}]}', "unknown type 'nothing'"),
        ('{"type": "record", "name": "n.r", "fields": [{"name": "a", "type": ["null", "r"]}]}', "record n.r contains itself"),
        ('{"type": "record", "name": "r", "fields": [{"name": "a", "type": []}]}', "a union of at least one type"),
        ('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}', "field a is there twice"),
        ('{"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "fixed", "name": "f", "size": -1}}]}', "size of fixed f"),
        ('{"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "enum", "name": "e", "symbols": []}}]}', "symbols of enum e"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_schema_is_refused_with_the_place(text, reason):
    with pytest.raises(SchemaError, match=reason):
        parsed(text)


def test_a_named_type_is_used_by_its_name_within_its_namespace():
    inner = {"type": "record", "name": "In", "fields": [{"name": "n", "type": "int"}]}
    schema = {"type": "record", "name": "a.Out", "fields": [{"name": "x", "type": inner}, {"name": "y", "type": "In"}]}
    rows = written(schema, {"x": {"n": 1}, "y": {"n": 2}})
    assert read(schema, rows, x="struct<n: int>", y="struct<n: int>") == [{"x": {"n": 1}, "y": {"n": 2}}]


def test_a_record_with_a_long_array_does_not_hold_up_the_others():
    """Read item by item with all others it took as many rounds as it has items: 20,000 of them four seconds."""
    schema = record(x={"type": "array", "items": "string"})
    short, long = written(schema, {"x": ["a"]}, {"x": ["item"] * 200_000})
    begin = time.process_time()
    found = read(schema, [short] * 5_000 + [long, short], x="array<string>")
    assert time.process_time() - begin < 30
    assert (len(found[5_000]["x"]), found[-1]) == (200_000, {"x": ["a"]})


def test_arrays_of_arrays_do_not_multiply_what_others_wait_for():
    schema = record(x={"type": "array", "items": {"type": "array", "items": {"type": "array", "items": "int"}}})
    cube = [[[1] * 50] * 50] * 50
    small, large = written(schema, {"x": [[[7]]]}, {"x": cube})
    begin = time.process_time()
    found = read(schema, [small] * 2_000 + [large, small], x="array<array<array<int>>>")
    assert time.process_time() - begin < 30
    assert (found[0], found[2_000], found[-1]) == ({"x": [[[7]]]}, {"x": cube}, {"x": [[[7]]]})


@pytest.mark.parametrize("claimed", [2**20, 2**40, 2**62, -(2**63)])
def test_a_count_beyond_the_bytes_that_are_left_takes_no_memory(claimed):
    def number(value):
        value, out = (value << 1) ^ (value >> 63), bytearray()
        value &= 2**64 - 1
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    schema = record(x={"type": "array", "items": "int"}, y={"type": "map", "values": "null"})
    hostile = [number(claimed) + b"\0" * 9, b"\0" + number(claimed) + b"\0" * 9]
    assert all(isinstance(one, str) for one in read(schema, hostile, x="array<int>"))
