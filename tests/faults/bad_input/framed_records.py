"""Good and bad records in Avro, Protobuf and Debezium, with what a reason must say, by hand: nothing here uses the code that is checked."""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from avro_records import framed, written
from protobuf_records import message_class

Draw = Callable[[Random], bytes | None]
GOOD, OTHER_KIND, MISFIT, UNKNOWN = 1, 2, 3, 999_999
"""Ids of schemas: that of good records, one of another kind, one that fits no column, and one that the registry has not."""
MEGABYTES = 10_000_000
_FIELDS: Mapping[str, Any] = {
    "id": "long",
    "name": "string",
    "share": "double",
    "kind": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]},
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2},
    "tags": {"type": "array", "items": "string"},
    "any": ["null", {"type": "map", "values": "long"}],
}
AVRO = {"type": "record", "name": "Row", "fields": [{"name": name, "type": kind} for name, kind in _FIELDS.items()]}
PROTO = """\
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Other { int64 id = 1; }
enum Kind { NEW = 0; OLD = 1; }
message Row {
  int64 id = 1;
  string name = 2;
  double share = 3;
  Kind kind = 4;
  google.protobuf.Timestamp at = 5;
  repeated string tags = 6;
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Framed:
    """A format, as the tests load it."""

    value: Mapping[str, Any]
    """The section `source.value`."""
    schemas: Sequence[tuple[str, Any]]
    """Kind and schema of each id, from 1."""
    good: Callable[[Random], tuple[bytes, int]]
    """Draws a good record, and the id that is in its row."""
    bad: Mapping[str, tuple[Draw, tuple[str, ...]]]
    """By name, draws a bad record; and one of these is in its reason."""


def _avro_row(rng: Random) -> dict[str, Any]:
    return {
        "id": rng.randrange(10**9),
        "name": rng.choice(["", "ünï", "x" * 300]),
        "share": rng.random(),
        "kind": rng.choice(["NEW", "OLD"]),
        "day": rng.randrange(20_000),
        "at": rng.randrange(10**12),
        "price": b"\x01",
        "tags": ["a"] * rng.choice([0, 1, 200]),
        "any": rng.choice([None, {"a": 1}]),
    }


def _avro(rng: Random, **bytes_of: bytes) -> bytes:
    """Return a good record, but for the fields whose bytes are given."""
    row = _avro_row(rng)
    parts = [bytes_of.get(name, written(_one_field(name), {name: row[name]})) for name in _FIELDS]
    return framed(GOOD, b"".join(parts))


def _one_field(name: str) -> Mapping[str, Any]:
    kind = _FIELDS[name]
    plain = kind["type"] if isinstance(kind, dict) and "logicalType" in kind else kind
    return {"type": "record", "name": "Row", "fields": [{"name": name, "type": plain}]}


def _good_avro(rng: Random) -> tuple[bytes, int]:
    number = rng.randrange(10**9)
    return _avro(rng, id=written(_one_field("id"), {"id": number})), number


def _fields(*, words: str, **bytes_of: bytes) -> tuple[Draw, tuple[str, ...]]:
    return (lambda rng: _avro(rng, **bytes_of)), (words,)


_ENDS = ("ends in the middle of a value", "a block has more items than bytes")
_FRAMES: Mapping[str, tuple[Draw, tuple[str, ...]]] = {
    "no value": (lambda _: None, ("value is null",)),
    "an empty value": (lambda _: b"", ("found 0 bytes in all",)),
    "half a frame": (lambda _: b"\0\0\0\0", ("found 4 bytes in all",)),
    "another first byte": (lambda rng: b"\x01" + rng.randbytes(30), ("expected a zero byte",)),
    "JSON": (lambda _: b'{"id": 1}', ("expected a zero byte",)),
    "10 MB of noise without a frame": (lambda rng: b"\x07" + rng.randbytes(MEGABYTES), ("expected a zero byte",)),
    "an unknown id": (lambda rng: framed(UNKNOWN, rng.randbytes(9)), (f"no schema of id {UNKNOWN}",)),
    "an id below zero": (lambda rng: b"\0\xff\xff\xff\xff" + rng.randbytes(9), ("id",)),
    "an id of another kind": (lambda rng: framed(OTHER_KIND, rng.randbytes(9)), (f"schema id {OTHER_KIND}",)),
    "a schema that fits no column": (lambda rng: framed(MISFIT, rng.randbytes(9)), (f"schema id {MISFIT}",)),
}
_AVRO_BAD: Mapping[str, tuple[Draw, tuple[str, ...]]] = {
    **_FRAMES,
    "cut off": (lambda rng: (whole := _avro(rng))[: rng.randrange(6, len(whole))], _ENDS),
    "nothing behind the frame": (lambda _: framed(GOOD, b""), _ENDS),
    "one byte more": (lambda rng: _avro(rng) + b"\0", ("1 bytes behind the end of the record",)),
    "two records in one": (lambda rng: _avro(rng) + _avro(rng)[5:], ("bytes behind the end of the record",)),
    "a number of more than 64 bits": _fields(id=b"\xff" * 9 + b"\x02", words="a number has more than 64 bits"),
    "a number without an end": _fields(id=b"\xff" * 30, words="a number has more than 64 bits"),
    "a text that is longer than the record": _fields(name=b"\xfe\xff\xff\xff\x0f", words="ends in the middle"),
    "a text of less than no bytes": _fields(name=b"\x01", words="ends in the middle"),
    "invalid UTF-8": _fields(name=b"\x04\xc3\x28", words="name: not valid UTF-8"),
    "U+0000": _fields(name=b"\x04a\0", words="name: text holds U+0000"),
    "no number": _fields(share=struct.pack("<d", float("nan")), words="share: the number is not finite"),
    "infinity": _fields(share=struct.pack("<d", float("-inf")), words="share: the number is not finite"),
    "a symbol that the enum has not": _fields(kind=b"\x04", words="kind: an enum of 2 symbols has no such number"),
    "a day beyond the years": _fields(day=b"\xff\xff\xff\xff\x0f", words="day: the date is outside of the years"),
    "an int of more than 32 bits": _fields(day=b"\x80\x80\x80\x80\x40", words="day: an int has more than 32 bits"),
    "a moment beyond the years": _fields(at=b"\xfe" + b"\xff" * 8 + b"\x01", words="at: the timestamp is outside"),
    "a decimal with too many digits": _fields(
        price=b"\x08\x7f\xff\xff\xff", words="price: the decimal has more than the 8 digits"
    ),
    "trillions of items": _fields(tags=b"\x80" * 5 + b"\x40", words="a block has more items than bytes"),
    "trillions of items in a block with a size": _fields(
        tags=b"\xff" * 5 + b"\x3f\x02", words="a block has more items than bytes"
    ),
    "items without an end": _fields(tags=b"\x02\x02a" * 5_000, any=b"", words="ends in the middle"),
    "a branch that the union has not": _fields(any=b"\x04", words="a union of 2 types has no such number"),
    "a map with more entries than bytes": _fields(
        any=b"\x02\x80\x80\x80\x80\x10", words="a block has more items than bytes"
    ),
    "U+0000 in the key of a map": _fields(any=b"\x02\x02\x02\0\x02\0", words="any: text holds U+0000"),
    "10 MB of noise": (
        lambda rng: framed(GOOD, b"\xff" * 20 + rng.randbytes(MEGABYTES)),
        ("a number has more than 64 bits",),
    ),
}
_ROW = message_class(PROTO, "Row")
_PLACE = b"\x02\x02"
"""The place of the message in its file, which is its second one."""
_NO_MESSAGE = ("the bytes are no message of this schema",)


def _message(rng: Random, **more: Any) -> bytes:
    given = {
        "id": rng.randrange(10**9),
        "name": "ünï",
        "share": rng.random(),
        "kind": 1,
        "at": {"seconds": rng.randrange(10**9)},
    }
    data: bytes = _ROW(**(given | {"tags": ["a", "bc"]} | more)).SerializeToString()
    return framed(GOOD, _PLACE + data)


def _good_message(rng: Random) -> tuple[bytes, int]:
    number = rng.randrange(10**9)
    return _message(rng, id=number), number


def _behind(data: bytes) -> Draw:
    return lambda rng: _message(rng) + data


_PROTOBUF_BAD: Mapping[str, tuple[Draw, tuple[str, ...]]] = {
    **_FRAMES,
    "cut off": (lambda rng: _message(rng)[:-1], _NO_MESSAGE),
    "another message of the schema": (lambda _: framed(GOOD, b"\0"), ("expected message Row, found Other",)),
    "no message of the schema": (lambda _: framed(GOOD, b"\x02\x0e"), ("expected message Row, found no message",)),
    "a place in thousands of messages": (lambda _: framed(GOOD, b"\xd0\x0f" + b"\0" * 2_000), ("message indexes",)),
    "a place that is cut off": (lambda _: framed(GOOD, b"\x04\x02"), ("ends in the middle",)),
    "field number 0": (_behind(b"\0"), _NO_MESSAGE),
    "a group that is not closed": (_behind(b"\x7b"), _NO_MESSAGE),
    "thousands of groups in each other": (_behind(b"\x7b" * 5_000 + b"\x7c" * 5_000), _NO_MESSAGE),
    "a number without an end": (_behind(b"\x08" + b"\xff" * 11), _NO_MESSAGE),
    "a text that is longer than the record": (_behind(b"\x12\xff\xff\xff\x7f"), _NO_MESSAGE),
    "invalid UTF-8": (_behind(b"\x12\x02\xc3\x28"), _NO_MESSAGE),
    "U+0000": (_behind(b"\x12\x01\0"), ("name: text holds U+0000",)),
    "no number": (_behind(b"\x19" + struct.pack("<d", float("nan"))), ("share: the number is not finite",)),
    "a number that the enum has not": (_behind(b"\x20\x09"), ("kind: ",)),
    "a moment beyond the years": (lambda rng: _message(rng, at={"seconds": 2**40}), ("at: the timestamp is outside",)),
    "10 MB of noise": (lambda rng: framed(GOOD, _PLACE + b"\0" + rng.randbytes(MEGABYTES)), _NO_MESSAGE),
}


def _change(rng: Random, **more: Any) -> dict[str, Any]:
    after = {
        "id": rng.randrange(10**9),
        "name": "ünï",
        "share": 0.5,
        "kind": "NEW",
        "at": "2026-01-01T00:00:00Z",
        "tags": ["a"],
    }
    return {"before": None, "after": after, "source": {"lsn": 7}, "op": rng.choice("cru"), "ts_ms": 1} | more


def _good_change(rng: Random) -> tuple[bytes, int]:
    change = _change(rng)
    return json.dumps(change).encode(), change["after"]["id"]


def _with(**more: Any) -> Draw:
    return lambda rng: json.dumps(_change(rng, **more)).encode()


def _after(**fields: Any) -> Draw:
    def draw(rng: Random) -> bytes:
        change = _change(rng)
        return json.dumps(change | {"after": change["after"] | fields}).encode()

    return draw


_DELETES = "it deletes a row, and source.tombstones is reject"
_DEBEZIUM_BAD: Mapping[str, tuple[Draw, tuple[str, ...]]] = {
    "no value": (lambda _: None, (_DELETES,)),
    "an empty value": (lambda _: b"", ("value is empty",)),
    "no JSON": (lambda _: b"\x07{", ("not valid JSON",)),
    "cut off": (
        lambda rng: (whole := json.dumps(_change(rng)).encode())[: rng.randrange(1, len(whole))],
        ("not valid JSON",),
    ),
    "an array": (lambda _: b"[]", ("expected a JSON object",)),
    "no change": (lambda _: b'{"id": 1}', ("expected a change with op",)),
    "a payload of null": (lambda _: b'{"schema": null, "payload": null}', ("expected an object in payload",)),
    "a deletion": (_with(op="d", after=None), (_DELETES,)),
    "a truncated table": (_with(op="t", after=None), ("the table was truncated",)),
    "a message": (_with(op="m", after=None), ("a message of an application",)),
    "an unknown op": (_with(op="x"), ("expected op c, u, r or d, found 'x'",)),
    "no row": (_with(op="u", after=None), ("expected an object in after",)),
    "a row that is none": (_with(op="u", after=[1]), ("expected an object in after",)),
    "a value that stands elsewhere": (
        _after(name="__debezium_unavailable_value"),
        ("name: it was not changed and stands elsewhere",),
    ),
    "text in a number": (_after(id="seven"), ("id: expected bigint",)),
    "U+0000": (_after(name="a\0"), ("name: text holds U+0000",)),
    "a number beyond 64 bits": (_after(id=2**63), ("id: expected bigint",)),
    "a moment beyond the years": (_after(at="99999-01-01T00:00:00Z"), ("at: expected timestamp",)),
    "thousands of levels": (
        lambda _: b'{"op": "c", "after": {"id": ' + b"[" * 5_000 + b"]" * 5_000 + b"}}",
        ("not valid JSON",),
    ),
    "10 MB of noise": (lambda rng: b"\x80" + rng.randbytes(MEGABYTES), ("not valid JSON",)),
}
_COMMON = {
    "id": "bigint",
    "name": "string",
    "share": "double",
    "kind": "string",
    "at": "timestamp",
    "tags": "array<string>",
}
_MISFIT = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "string"}]}
FORMATS: Mapping[str, Framed] = {
    "avro": Framed(
        value={
            "format": "avro",
            "frame": "confluent",
            "columns": {**_COMMON, "day": "date", "price": "decimal(10,2)", "any": "json"},
        },
        schemas=[("AVRO", AVRO), ("JSON", {}), ("AVRO", _MISFIT)],
        good=_good_avro,
        bad=_AVRO_BAD,
    ),
    "protobuf": Framed(
        value={"format": "protobuf", "frame": "confluent", "message": "Row", "columns": _COMMON},
        schemas=[
            ("PROTOBUF", PROTO),
            ("AVRO", AVRO),
            ("PROTOBUF", 'syntax = "proto3"; message Row { string id = 1; }'),
        ],
        good=_good_message,
        bad=_PROTOBUF_BAD,
    ),
    "debezium": Framed(
        value={"format": "debezium", "columns": _COMMON}, schemas=[], good=_good_change, bad=_DEBEZIUM_BAD
    ),
}
