"""Protobuf: which fields fill which columns, what a record means by the rules of the wire, and where schemas come from."""

import json
import struct
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from google.protobuf.message import DecodeError

from avro_records import framed
from format_contract import Given, decoded, mutated, outcomes
from protobuf_records import message_class
from tideline.declaration.source import Value
from tideline.domain.schemas import NoSchemas, Reference, Schema
from tideline.errors import FatalError
from tideline.formats import kinds
from tideline.formats.protobuf.compiling import ProtobufSchemaError, compiled
from tideline.formats.protobuf.decoding import NO_MESSAGE

PLAIN = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; '
EVERY = PLAIN + (
    "enum Kind { A = 0; B = 5; } message M { int32 i = 1; optional string t = 2; bool b = 3; double d = 4; Kind k = 5; repeated Part parts = 6;"
    " oneof one { uint64 u = 7; Part part = 8; } repeated fixed32 many = 9; google.protobuf.Int32Value w = 10; }"
    " message Part { string s = 1; sint32 n = 2; }"
)
EVERY_COLUMNS = {
    "i": "int",
    "t": "string",
    "b": "boolean",
    "d": "double",
    "k": "string",
    "parts": "array<struct<s: string, n: int>>",
    "u": "decimal(20,0)",
    "part": "struct<s: string, n: int>",
    "many": "array<bigint>",
    "w": "int",
}


def framed_format(**columns):
    section = {"format": "protobuf", "frame": "confluent", "message": "M", "columns": columns}
    return kinds.declared(Value.model_validate(section), Path())


def read(schema, records, head=b"\0", references=(), **columns):
    given = Given({1: Schema(kind="PROTOBUF", text=schema, references=references)})
    found = decoded(framed_format(**columns), [framed(1, head + one) for one in records], given)
    return outcomes(found, len(records))


def one(field, column, **value):
    """Return what becomes of a record with one field of this type, in a column `v`."""
    schema = f"{PLAIN} enum Kind {{ A = 0; B = 5; }} message M {{ {field}; }} message N {{ int32 x = 1; }}"
    [found] = read(schema, [message_class(schema, "M")(**value).SerializeToString()], v=column)
    return found["v"] if isinstance(found, dict) else found


def row_of(message):
    """Return the row that the second decoder sees, or None if a value of it fits no column."""
    part = {"s": message.part.s, "n": message.part.n} if message.HasField("part") else None
    texts = [message.t, *(one.s for one in message.parts), message.part.s]
    if message.k not in (0, 5) or message.d - message.d != 0 or any("\0" in text for text in texts):
        return None
    return {
        "i": message.i,
        "t": message.t if message.HasField("t") else None,
        "b": message.b,
        "d": message.d,
        "k": "B" if message.k else "A",
        "parts": [{"s": one.s, "n": one.n} for one in message.parts],
        "u": Decimal(message.u) if message.HasField("u") else None,
        "part": part,
        "many": list(message.many),
        "w": message.w.value if message.HasField("w") else None,
    }


@pytest.mark.parametrize("seed", range(3))
def test_what_another_decoder_reads_is_read_and_what_it_refuses_is_refused(seed):
    """Fields that are not declared are read over, and what is in them is not judged: so all are declared here."""
    rng, made = Random(seed), message_class(EVERY, "M")
    records = []
    for _ in range(1_500):
        record = made(
            i=rng.randrange(-(2**31), 2**31),
            t=rng.choice([None, "", "é"]),
            b=rng.random() < 0.5,
            d=rng.random(),
            k=rng.choice([0, 5, 5, 9]),
            parts=[{"s": "x" * rng.randrange(9), "n": rng.randrange(-3, 3)} for _ in range(rng.randrange(3))],
            many=[rng.randrange(2**32) for _ in range(rng.randrange(3))],
            w=rng.choice([None, {"value": 0}, {"value": 7}]),
            **rng.choice([{}, {"u": 2**64 - 1}, {"part": {"s": "p"}}]),
        ).SerializeToString()
        again = rng.choice([record, mutated(rng, record), record + rng.choice(records or [b""]), mutated(rng, record)])
        records.append(again)
    found = read(EVERY, records, **EVERY_COLUMNS)
    n_rows = 0
    for record, outcome in zip(records, found, strict=True):
        try:
            expected = row_of(made.FromString(record))
        except DecodeError:
            assert outcome == NO_MESSAGE, record
            continue
        n_rows += expected is not None
        assert outcome == expected if expected else isinstance(outcome, str), record
    assert 300 < n_rows < 1_200


FITTING = [
    ("int32 v = 1", {"v": -5}, "smallint", -5),
    ("uint32 v = 1", {"v": 2**32 - 1}, "bigint", 2**32 - 1),
    ("sint64 v = 1", {"v": -(2**63)}, "bigint", -(2**63)),
    ("fixed64 v = 1", {"v": 7}, "double", 7.0),
    ("sfixed32 v = 1", {"v": -7}, "decimal(5,2)", Decimal("-7.00")),
    ("uint64 v = 1", {"v": 2**64 - 1}, "decimal(20,0)", Decimal(2**64 - 1)),
    ("float v = 1", {"v": 0.5}, "double", 0.5),
    ("float v = 1", {"v": 0.5}, "float", 0.5),
    ("double v = 1", {"v": -0.0}, "double", -0.0),
    ("string v = 1", {}, "string", ""),
    ("optional string v = 1", {}, "string", None),
    ("string v = 1", {"v": "0012.5000"}, "decimal(3,1)", Decimal("12.5")),
    ("string v = 1", {"v": "-.5"}, "decimal(3,1)", Decimal("-0.5")),
    ("string v = 1", {}, "decimal(3,1)", None),
    ("Kind v = 1", {}, "string", "A"),
    ("repeated Kind v = 1", {"v": [5, 0]}, "array<string>", ["B", "A"]),
    ("N v = 1", {"v": {}}, "struct<x: int>", {"x": 0}),
    ("N v = 1", {"v": {"x": 1}}, "struct<y: string>", {"y": None}),
    ("map<string, N> v = 1", {"v": {"a": {"x": 1}}}, "array<struct<key: string, value: struct<x: int>>>", [{"key": "a", "value": {"x": 1}}]),
    ("map<string, N> v = 1", {"v": {"a": {"x": 1}}}, "array<struct<key: string>>", [{"key": "a"}]),
    ("map<bool, bytes> v = 1", {"v": {True: b"x"}}, "array<struct<key: boolean>>", [{"key": True}]),
    ("google.protobuf.BoolValue v = 1", {"v": {}}, "boolean", False),
    ("google.protobuf.StringValue v = 1", {}, "string", None),
    ("google.protobuf.Timestamp v = 1", {"v": {"seconds": -62_135_596_800}}, "timestamp", datetime(1, 1, 1, tzinfo=UTC)),
    ("google.protobuf.Timestamp v = 1", {"v": {"nanos": 1_000}}, "timestamp", datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
    ("google.protobuf.Timestamp v = 1", {"v": {"nanos": 1}}, "struct<seconds: bigint, nanos: int>", {"seconds": 0, "nanos": 1}),
    ("google.protobuf.Timestamp v = 1", {}, "timestamp", None),
    ("int32 v = 1", {"v": 2**31 - 1}, "smallint", "v: the number is too large for smallint"),
    ("uint64 v = 1", {"v": 2**63}, "bigint", "v: the number is too large for bigint"),
    ("int64 v = 1", {"v": -(2**31) - 1}, "int", "v: the number is too large for int"),
    ("int64 v = 1", {"v": 1_000}, "decimal(5,2)", "v: the number does not fit decimal(5,2)"),
    ("string v = 1", {"v": "12.34"}, "decimal(3,1)", "v: expected decimal(3,1), found other text"),
    ("string v = 1", {"v": "1e2"}, "decimal(9,1)", "v: expected decimal(9,1), found other text"),
    ("string v = 1", {"v": "."}, "decimal(9,1)", "v: expected decimal(9,1), found other text"),
    ("string v = 1", {"v": "1\n"}, "decimal(9,1)", "v: expected decimal(9,1), found other text"),
    ("string v = 1", {"v": "a\0"}, "string", "v: text holds U+0000, which PostgreSQL cannot store"),
    ("double v = 1", {"v": float("nan")}, "double", "v: the number is not finite"),
    ("float v = 1", {"v": float("-inf")}, "double", "v: the number is not finite"),
    ("Kind v = 1", {"v": 3}, "string", "v: the enum of the schema has no number 3"),
    ("repeated double v = 1", {"v": [1, float("inf")]}, "array<double>", "v[]: the number is not finite"),
    ("map<int32, Kind> v = 1", {"v": {1: 9}}, "array<struct<key: int, value: string>>", "v[].value: the enum of the schema has no number 9"),
    ("google.protobuf.Timestamp v = 1", {"v": {"seconds": 253_402_300_800}}, "timestamp", "v: the timestamp is outside of the years 1 to 9999"),
    ("google.protobuf.Timestamp v = 1", {"v": {"nanos": -1}}, "timestamp", "v: the timestamp is outside of the years 1 to 9999"),
    ("google.protobuf.Timestamp v = 1", {"v": {"nanos": 1}}, "timestamp",
     "v: the timestamp is finer than microseconds; a struct<seconds: bigint, nanos: int> holds it"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "column", "expected"), FITTING)
def test_a_value_fills_a_column_where_nothing_is_lost(field, value, column, expected):
    found = one(field, column, **value)
    assert (type(found), found) == (type(expected), expected)
    assert struct.pack("d", found) == struct.pack("d", expected) if isinstance(expected, float) else True


REFUSED = [
    ("int32 v = 1", "string", "expected string, the schema has int32"),
    ("string v = 1", "int", "expected int, the schema has string"),
    ("double v = 1", "float", "expected float, the schema has double"),
    ("string v = 1", "timestamp", "expected timestamp, the schema has string"),
    ("bytes v = 1", "string", "expected string, the schema has bytes"),
    ("bool v = 1", "int", "expected int, the schema has bool"),
    ("Kind v = 1", "int", "expected int, the schema has enum Kind"),
    ("N v = 1", "string", "expected string, the schema has message N"),
    ("N v = 1", "struct<x: string>", "v.x: expected string, the schema has int32"),
    ("repeated int32 v = 1", "int", "expected int, the schema has repeated int32"),
    ("int32 v = 1", "array<int>", "expected array<int>, the schema has int32"),
    ("map<int32, N> v = 1", "struct<key: int>", "the schema has map<int32, message N>"),
    ("map<int32, N> v = 1", "array<struct<value: struct<x: int>>>", "a struct with the key of the map"),
    (
        "google.protobuf.Int32Value v = 1",
        "string",
        "expected string, the schema has message google.protobuf.Int32Value",
    ),
]


@pytest.mark.parametrize(("field", "column", "reason"), REFUSED)
def test_a_schema_that_fills_no_column_makes_each_of_its_records_a_reject(field, column, reason):
    found = one(field, column)
    assert found.startswith("schema id 1: v"), found
    assert reason in found


def test_fields_that_a_record_has_twice_are_read_by_the_rules_of_the_wire():
    made = message_class(EVERY, "M")
    both = [
        made(i=1).SerializeToString() + made(i=2).SerializeToString(),
        made(u=3).SerializeToString() + made(part={"s": "last"}).SerializeToString(),
        made(part={"s": "a"}).SerializeToString() + made(part={"n": 4}).SerializeToString(),
    ]
    last, chosen, merged = read(EVERY, both, **EVERY_COLUMNS)
    assert last["i"] == 2
    assert (chosen["u"], chosen["part"]) == (None, {"s": "last", "n": 0})
    assert merged["part"] == {"s": "a", "n": 4}


def test_a_choice_that_is_not_declared_takes_the_place_of_one_that_is():
    made = message_class(EVERY, "M")
    both = made(u=3).SerializeToString() + made(part={"s": "last"}).SerializeToString()
    assert read(EVERY, [both], u="bigint") == [{"u": None}]


def test_of_equal_keys_of_a_map_the_last_counts():
    schema = 'syntax = "proto3"; message M { map<string, int32> v = 1; }'
    made = message_class(schema, "M")
    twice = b"".join(made(v={"a": number}).SerializeToString() for number in (1, 2))
    assert read(schema, [twice], v="array<struct<key: string, value: int>>") == [{"v": [{"key": "a", "value": 2}]}]


def test_a_schema_that_contains_itself_is_read_as_deep_as_the_columns_are():
    schema = 'syntax = "proto3"; message M { int32 id = 1; M inner = 2; M beside = 3; }'
    deep = b""
    for _ in range(3_000):
        deep = b"\x1a" + _varint(len(deep)) + deep
    record = message_class(schema, "M")(id=1, inner={"id": 2, "inner": {"id": 3}}).SerializeToString()
    found = read(schema, [record, record + deep], id="int", inner="struct<id: int>")
    assert found == [{"id": 1, "inner": {"id": 2}}] * 2


def _varint(number):
    out = b""
    while number >= 0x80:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def test_proto2_and_editions_are_read_and_a_field_that_is_absent_is_null():
    group = "optional group G = 3 { optional int32 y = 4; }"
    old = f'syntax = "proto2"; message M {{ required int32 id = 1; optional string t = 2 [default = "x"]; {group} }}'
    assert read(old, [b"\x08\x05", b""], id="int", t="string") == [{"id": 5, "t": None}, {"id": None, "t": None}]
    [refused] = read(old, [b""], g="struct<y: int>")
    assert "the schema has a group" in refused
    new = 'edition = "2023"; message M { int32 id = 1; int32 implicit = 2 [features.field_presence = IMPLICIT]; }'
    assert read(new, [b""], id="int", implicit="int") == [{"id": None, "implicit": 0}]


ANY = (
    PLAIN + 'import "google/protobuf/struct.proto"; import "google/protobuf/duration.proto"; '
    "message M { int64 id = 1; %s; string beside = 99; } enum Kind { A = 0; B = 5; } "
    "message N { int32 x = 1; optional bool b = 2; N inner = 3; repeated N many = 4; }"
)


def whole(field, **value):
    """Return what a column of JSON holds of a field of this type, in both ways that it can be read; or why the record is a reject."""
    schema = ANY % field
    record = message_class(schema, "M")(id=1, **value).SerializeToString()
    [as_column] = read(schema, [record], v="json")
    given = Given({1: Schema(kind="PROTOBUF", text=schema)})
    section = {"format": "protobuf", "frame": "confluent", "message": "M", "columns": {"id": "int"}, "unknown": "keep"}
    [kept] = outcomes(
        decoded(kinds.declared(Value.model_validate(section), Path()), [framed(1, b"\0" + record)], given), 1
    )
    if isinstance(kept, str):
        assert as_column == kept
        return kept
    members = json.loads(kept["unknown_fields"] or "{}")
    assert json.dumps(members.get("v")) == json.dumps(json.loads(as_column["v"] or "null")) or "v" not in members
    return as_column["v"]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("map<string, N> v = 2", {"é": {"x": 1}, "a": {"b": False}}, '{"a":{"b":false},"é":{"x":1}}'),
        ("map<bool, int64> v = 2", {True: 2**62, False: -1}, '{"false":-1,"true":4611686018427387904}'),
        ("map<string, N> v = 2", {}, "{}"),
        ("repeated N v = 2", [{"x": 0}, {"inner": {"many": [{"x": 2}]}}], '[{},{"inner":{"many":[{"x":2}]}}]'),
        ("N v = 2", None, None),
        ("N v = 2", {}, "{}"),
        ("int32 v = 2", 0, "0"),
        ("optional int32 v = 2", None, None),
        ("fixed64 v = 2", 2**64 - 1, "18446744073709551615"),
        ("float v = 2", 0.1, "0.1"),
        ("bytes v = 2", b"\0\xff", '"AP8="'),
        ("Kind v = 2", 5, '"B"'),
        ("Kind v = 2", 7, "7"),
        ("google.protobuf.Timestamp v = 2", {"seconds": 1, "nanos": 5}, '"1970-01-01T00:00:01.000000005Z"'),
        ("google.protobuf.Duration v = 2", {"seconds": -3}, '"-3s"'),
        ("google.protobuf.Int32Value v = 2", {"value": 3}, "3"),
        (
            "google.protobuf.Struct v = 2",
            {"a": [None]},
            '{"a":[null]}',
        ),
    ],
)
def test_a_column_of_json_holds_any_field_whole(field, value, expected):
    assert whole(field, v=value) == expected


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("double v = 2", float("nan"), "v: the number is not finite"),
        ("N v = 2", {"inner": None}, None),
        ("string v = 2", "a\0", "v: text holds U+0000"),
        ("map<string, int32> v = 2", {"\0": 1}, "v: text holds U+0000"),
        ("repeated google.protobuf.Timestamp v = 2", [{"seconds": 2**60}], "v[]: "),
        ("google.protobuf.Duration v = 2", {"seconds": 2**60}, "v: no duration"),
        ("google.protobuf.Value v = 2", {"struct_value": {"a": float("inf")}}, "v.a: "),
    ],
)
def test_a_value_that_jsonb_cannot_hold_makes_its_record_a_reject(field, value, reason):
    found = whole(field, v=value)
    assert found == "{}" if reason is None else found.startswith(reason)


def test_with_a_column_of_json_the_whole_record_must_be_a_message():
    """Google's decoder reads all of it: text that is not UTF-8 and messages that are too deep are rejects also where no column takes them."""
    schema = ANY % "N v = 2"
    good = message_class(schema, "M")(id=1).SerializeToString()
    deep = b""
    for _ in range(3_000):
        deep = b"\x1a" + _varint(len(deep)) + deep
    beside = b"\x9a\x06\x01\xff"
    inner = b"\x12" + _varint(len(deep)) + deep
    assert read(schema, [good, good + beside, good + inner], id="int", v="json") == [
        {"id": 1, "v": None},
        NO_MESSAGE,
        NO_MESSAGE,
    ]
    assert read(schema, [good + beside, good + inner], id="int") == [{"id": 1}] * 2


NESTED = (
    'syntax = "proto3"; package p; message A { message B {} message M { int64 id = 1; } } message M { int64 id = 1; }'
)


def test_the_head_of_a_record_says_which_message_it_is():
    section = {"format": "protobuf", "frame": "confluent", "message": "p.A.M", "columns": {"id": "bigint"}}
    given = Given(
        {1: Schema(kind="PROTOBUF", text=NESTED), 2: Schema(kind="PROTOBUF", text=NESTED.replace("int64", "sint64"))}
    )
    heads = [b"\4\0\2", b"\0", b"\2\2", b"\2\x0e", b"\4\0\x80", b"\x80\x02" + b"\0" * 200, b"\1", b"\2", b"", b"\4\0\2"]
    records = [framed(1 + number % 2, head + b"\x08\x02") for number, head in enumerate(heads)]
    format_ = kinds.declared(Value.model_validate(section), Path())
    assert outcomes(decoded(format_, records, given), len(heads)) == [
        {"id": 2},
        "expected message p.A.M, found p.A at [0] of the schema",
        "expected message p.A.M, found p.M at [1] of the schema",
        "expected message p.A.M, found no message at [7] of the schema",
        "expected message p.A.M, found no message at [0, 512] of the schema",
        "expected at most 32 message indexes",
        "expected at most 32 message indexes",
        "expected message p.A.M, found no message at [4] of the schema",
        "ends in the middle of a value",
        {"id": 1},
    ]


def test_schemas_that_are_read_alike_and_others_give_the_rows_of_each():
    grown = [
        'syntax = "proto3"; message M { int64 id = 1; }',
        'syntax = "proto3"; message M { int64 id = 1; string more = 2; }',
        'syntax = "proto3"; message M { int32 id = 1; string name = 3; }',
        'syntax = "proto3"; message M { int64 number = 4; string name = 3; }',
    ]
    given = Given({number: Schema(kind="PROTOBUF", text=text) for number, text in enumerate(grown)})
    section = {
        "format": "protobuf",
        "frame": "confluent",
        "message": "M",
        "columns": {"id": "bigint", "name": "string"},
        "aliases": {"id": ["number"]},
        "defaults": {"name": "none"},
    }
    written = [{"id": 1}, {"id": 2, "more": "x"}, {"id": 3, "name": "n"}, {"number": 4, "name": "m"}]
    records = [
        framed(number, b"\0" + message_class(grown[number], "M")(**written[number]).SerializeToString())
        for number in (3, 0, 2, 1, 0, 3)
    ]
    found = outcomes(decoded(kinds.declared(Value.model_validate(section), Path()), records, given), len(records))
    assert [(row["id"], row["name"]) for row in found] == [
        (4, "m"),
        (1, "none"),
        (3, "n"),
        (2, "none"),
        (1, "none"),
        (4, "m"),
    ]


def test_a_schema_is_compiled_with_those_that_it_imports():
    money = Reference("shop/money.proto", 'syntax = "proto3"; package shop; message Money { int64 units = 1; }')
    priced = 'syntax = "proto3"; import "shop/money.proto"; message M { shop.Money price = 1; }'
    assert read(priced, [b"\x0a\x02\x08\x07"], references=(money,), price="struct<units: bigint>") == [
        {"price": {"units": 7}}
    ]
    [missing] = read(priced, [b""], price="struct<units: bigint>")
    assert missing.startswith("schema id 1: it does not compile: shop/money.proto: File not found")


@pytest.mark.parametrize("name", ["../up.proto", "/tmp/at-the-root.proto", "a/../../up.proto", ""])
def test_an_import_writes_no_file_outside_of_its_folder(name, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "below"))
    (tmp_path / "below").mkdir()
    with pytest.raises(ProtobufSchemaError, match="below its folder"):
        compiled('syntax = "proto3"; message M {}', [Reference(name, "x")])
    assert [path.name for path in tmp_path.rglob("*")] == ["below"]


@pytest.mark.parametrize(
    "references",
    [
        [Reference("a\0b.proto", "")],
        [Reference("a" * 300, "")],
        [Reference("a", ""), Reference("a/b.proto", "")],
        [Reference("a.proto", "\ud800")],
    ],
)
def test_an_import_that_is_no_file_with_text_makes_rejects_and_ends_no_process(references):
    [found] = read('syntax = "proto3"; message M { int32 id = 1; }', [b""], references=tuple(references), id="int")
    assert "is no file with text" in found


def section_of(folder, file, message="M", **columns):
    section = {"format": "protobuf", "schema_file": file, "message": message, "columns": columns or {"id": "int"}}
    return kinds.declared(Value.model_validate(section), folder)


def test_a_pipeline_names_a_proto_file_or_what_the_compiler_makes_of_it(tmp_path):
    (tmp_path / "m.proto").write_text(f"{PLAIN} message M {{ int32 id = 1; google.protobuf.Timestamp at = 2; }}")
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{tmp_path}",
        f"--descriptor_set_out={tmp_path / 'm.desc'}",
    ]
    subprocess.run([*command, "m.proto"], check=True)  # without its imports: Google's own are known
    record = b"\x08\x05\x12\x02\x08\x01"
    expected = [{"id": 5, "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}]
    for file in ("m.proto", "m.desc"):
        format_ = section_of(tmp_path, file, id="int", at="timestamp")
        assert outcomes(decoded(format_, [record], NoSchemas()), 1) == expected


@pytest.mark.parametrize(
    ("file", "text", "message", "reason"),
    [
        ("none.proto", None, "M", "found No such file or directory"),
        ("m.proto", b"message M {", "M", "it does not compile: schema.proto:1:12: Reached end of input in message"),
        ("m.proto", b"\xff", "M", "codec can't decode"),
        (
            "m.proto",
            b'syntax = "proto3"; package p; message M {}',
            "M",
            "expected message M, found p.M in schema.proto",
        ),
        ("m.proto", b'syntax = "proto3"; message M { string id = 1; }', "M", "id: expected int, the schema has string"),
        ("m.desc", b"message", "M", "found other bytes"),
        ("m.desc", b"", "M", "found no file in it"),
        ("m.desc", b"\x0a\x11\x0a\x01m\x1a\x05other\x22\x05\x0a\x01M", "M", ""),
    ],
)
def test_a_file_that_is_no_schema_of_the_message_is_refused_before_the_read(tmp_path, file, text, message, reason):
    if text is not None:
        (tmp_path / file).write_bytes(text)
    with pytest.raises(FatalError, match=r"no schema for these columns") as caught:
        section_of(tmp_path, file, message)
    assert reason in str(caught.value)


def test_a_schema_of_another_kind_is_a_reject():
    given = Given({1: Schema(kind="AVRO", text="{}", subjects=("m-value",))})
    [found] = outcomes(decoded(framed_format(id="int"), [framed(1, b"\0")], given), 1)
    assert found == "schema id 1 of m-value: expected a schema of the kind PROTOBUF, found AVRO"


def test_where_a_library_is_missing_the_message_says_what_to_install():
    """Who reads no Protobuf need not have it, so other formats are read as ever."""
    code = (
        "import sys\nfrom pathlib import Path\nsys.modules['ptars'] = None\n"
        "from tideline.declaration.source import Value\nfrom tideline.errors import FatalError\nfrom tideline.formats import kinds\n"
        "kinds.declared(Value(format='json', columns={'id': 'int'}), Path())\n"
        "try:\n    kinds.declared(Value(format='protobuf', frame='confluent', message='M', columns={'id': 'int'}), Path())\n"
        "except FatalError as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "the library ptars is not installed" in said
    assert "pip install 'tideline[protobuf]'" in said
