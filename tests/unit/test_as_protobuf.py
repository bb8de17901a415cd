"""Rows become Protobuf messages: Google's library reads what was given, and what a message cannot hold is refused."""

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from google.protobuf import json_format, message_factory

from tideline.domain.schemas import Reference, Schema
from tideline.formats import kinds
from tideline.formats.confluent_frame import framed
from tideline.formats.encoder import UnencodableError
from tideline.formats.protobuf.compiling import Messages, ProtobufSchemaError, compiled

TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "decimal.proto";
message Other { message In { int32 x = 1; } int32 y = 1; }
enum Color { NONE = 0; RED = 1; }
message Row {
  int64 id = 1;
  optional int32 small = 2;
  string name = 3;
  optional bytes raw = 4;
  double d = 5;
  optional float f = 6;
  bool b = 7;
  Color color = 8;
  google.protobuf.Timestamp at = 9;
  google.protobuf.Int64Value wrapped = 10;
  google.type.Decimal price = 11;
  Other.In inner = 12;
  repeated Other.In more = 13;
  repeated string words = 14;
  map<string, int64> counts = 15;
  oneof choice { string left = 16; int32 right = 17; }
}
"""
REFERENCES = (
    Reference("decimal.proto", 'syntax = "proto3"; package google.type; message Decimal { string value = 1; }'),
)
SCHEMA = Schema(kind="PROTOBUF", text=TEXT, references=REFERENCES)


def encoder(message="shop.Row"):
    return kinds.encoder("protobuf", SCHEMA, message, framed(7))


def read(written, message="shop.Row", head=b"\x00\x00\x00\x00\x07\x02\x02"):
    made = message_factory.GetMessageClass(Messages(compiled(TEXT, REFERENCES)).named(message))
    found = []
    for one in written.to_pylist():
        assert one.startswith(head)
        read_message = made.FromString(one[len(head) :])
        found.append(json_format.MessageToDict(read_message, preserving_proto_field_name=True))
    return found


IN = pa.struct([("x", pa.int32())])
COLUMNS = {
    "id": (pa.int64(), 2**62, -1),
    "small": (pa.int64(), 5, None),
    "name": (pa.string(), "ä", ""),
    "raw": (pa.binary(), b"\x01", None),
    "d": (pa.float64(), 0.5, 0.0),
    "f": (pa.float32(), 0.25, None),
    "b": (pa.bool_(), True, False),
    "color": (pa.string(), "RED", "NONE"),
    "at": (pa.timestamp("us", "UTC"), datetime(1969, 12, 31, 23, 59, 59, 1, UTC), None),
    "wrapped": (pa.int64(), 0, None),
    "price": (pa.decimal128(10, 2), Decimal("-1.50"), None),
    "inner": (IN, {"x": 3}, None),
    "more": (pa.list_(IN), [{"x": 1}, {"x": 2}], []),
    "words": (pa.list_(pa.string()), ["a", "b"], []),
    "counts": (pa.map_(pa.string(), pa.int64()), [("k", 9)], []),
    "left": (pa.string(), None, "l"),
    "right": (pa.int32(), 0, None),
}
FULL = {
    "id": str(2**62),
    "small": 5,
    "name": "ä",
    "raw": "AQ==",
    "d": 0.5,
    "f": 0.25,
    "b": True,
    "color": "RED",
    "at": "1969-12-31T23:59:59.000001Z",
    "wrapped": "0",
    "price": {"value": "-1.50"},
    "inner": {"x": 3},
    "more": [{"x": 1}, {"x": 2}],
    "words": ["a", "b"],
    "counts": {"k": "9"},
    "right": 0,
}


@pytest.mark.parametrize("start", [0, 1])
def test_each_kind_of_field_is_read_as_it_was_given_and_a_null_is_absent(start):
    columns = {name: pa.array(values, kind)[start:] for name, (kind, *values) in COLUMNS.items()}
    writer = encoder()
    assert writer.problems({name: one.type for name, one in columns.items()}) == []
    assert read(writer.encoded(columns, 2 - start)) == [FULL, {"id": "-1", "left": "l"}][start:]


def test_the_frame_names_the_message_by_its_place():
    found = encoder("shop.Other").encoded({"y": pa.array([1])}, 1)
    assert read(found, "shop.Other", framed(7) + b"\x00") == [{"y": 1}]
    nested = encoder("shop.Other.In").encoded({"x": pa.array([1])}, 1)
    assert read(nested, "shop.Other.In", framed(7) + b"\x04\x00\x00") == [{"x": 1}]


def test_a_message_of_an_import_or_none_is_refused():
    with pytest.raises(ProtobufSchemaError, match="found it in an import"):
        encoder("google.type.Decimal")
    with pytest.raises(ProtobufSchemaError, match=r"expected message shop\.Nothing"):
        encoder("shop.Nothing")


REFUSED = [
    ("small", pa.array([2**31]), "no message shop.Row"),
    (
        "name",
        pa.array([None], pa.string()),
        "column name: expected a value, because the field tells no absence, found null",
    ),
    ("words", pa.array([None], pa.list_(pa.string())), "column words: expected a value"),
    ("words", pa.array([[None]], pa.list_(pa.string())), "column words: expected values only, found null among them"),
    ("color", pa.array(["GREEN"]), "no message shop.Row"),
    ("at", pa.array([2**60], pa.timestamp("us", "UTC")), "the timestamp is outside of the years 1 to 9999"),
]


@pytest.mark.parametrize(("name", "column", "reason"), REFUSED, ids=lambda one: str(one)[:40])
def test_a_value_that_the_message_cannot_hold_is_refused_and_never_changed(name, column, reason):
    writer = encoder()
    assert writer.problems({name: column.type}) == []
    with pytest.raises(UnencodableError, match=reason):
        writer.encoded({name: column}, len(column))


def test_two_values_for_one_oneof_are_refused():
    with pytest.raises(UnencodableError, match="expected one value for the oneof choice, found several"):
        encoder().encoded({"left": pa.array(["l"]), "right": pa.array([1])}, 1)


MISFITS = [
    ({"nothing": pa.int32()}, "nothing: message shop.Row has no such field"),
    ({"id": pa.string()}, "id: the schema has int64, which Arrow type string does not fill"),
    ({"f": pa.float64()}, "f: the schema has float, which Arrow type double does not fill"),
    ({"at": pa.timestamp("us")}, "at: the schema has message google.protobuf.Timestamp"),
    ({"words": pa.string()}, "words: the schema has repeated string"),
    ({"counts": pa.string()}, "counts: the schema has map<string, int64>"),
    ({"counts": pa.map_(pa.string(), pa.string())}, "counts{}: the schema has int64"),
    ({"inner": pa.struct([("z", pa.int32())])}, "inner.z: message shop.Other.In has no such field"),
    ({"wrapped": pa.string()}, "wrapped: the schema has message google.protobuf.Int64Value"),
]


@pytest.mark.parametrize(("columns", "problem"), MISFITS, ids=lambda one: str(one)[:40])
def test_types_that_do_not_fit_are_named_before_anything_is_read(columns, problem):
    assert any(problem in one for one in encoder().problems(columns))
