"""Fields that no column takes: each format names them, in how many records they are, and where one of them is."""

import json
from pathlib import Path

import pytest

from avro_records import framed, written
from format_contract import Given, decoded
from protobuf_records import message_class
from tideline.declaration.source import Value
from tideline.domain.schemas import NoSchemas, Schema
from tideline.formats import kinds
from tideline.formats.undeclared import MOST, cleaned

COLUMNS = {"id": "bigint", "at": "struct<x: int, lines: array<struct<sku: string>>>"}


def found(records, schemas=None, **section):
    format_ = kinds.declared(Value.model_validate({"columns": COLUMNS, **section}), Path())
    return {name: tuple(one) for name, one in decoded(format_, records, schemas or NoSchemas()).undeclared.items()}


def refused(records, schemas, **section):
    """Return which records are rejects because of their fields."""
    format_ = kinds.declared(Value.model_validate({"columns": COLUMNS, "unknown": "reject", **section}), Path())
    rejected = decoded(format_, records, schemas).rejected
    return {position for position, reason in rejected.items() if "not declared" in reason and "at.lines[].n" in reason}


def as_json(*objects):
    return [json.dumps(one).encode() for one in objects]


def test_json_has_the_fields_of_each_record():
    records = as_json(
        {"id": 1},
        {"id": 2, "more": 1, "other": None},
        {"more": 2, "at": {"x": 1, "y": 2, "lines": [{"sku": "a", "n": 1}, {"n": 2}]}},
        {"id": "no number", "more": 3},
    )
    expected = {"more": (3, 1), "other": (1, 1), "at.y": (1, 2), "at.lines[].n": (1, 2)}
    assert found([None, b"no JSON", *records], format="json") == {
        name: (n_records, first + 2) for name, (n_records, first) in expected.items()
    }
    assert found(as_json({"id": 1}, {"at": None}, {"at": {"lines": None}}), format="json") == {}


def test_fields_are_found_also_after_a_batch_with_faults():
    format_ = kinds.declared(Value.model_validate({"format": "json", "columns": COLUMNS}), Path())
    decode = format_.decoder(NoSchemas())
    bad = as_json(*({"id": "x"} for _ in range(600)), {"id": 1})
    for _ in range(2):
        for batch in (bad, as_json({"id": 1, "more": 1}, {"id": 2.5, "more": 2})):
            given = decoded(_Same(decode), batch, NoSchemas())
        assert given.undeclared == {"more": (2, 0)}


class _Same:
    """A format whose decoder goes on with what it has learned."""

    def __init__(self, decode):
        self.decode = decode

    def decoder(self, _schemas):
        return self.decode


def test_names_that_are_values_are_bounded_and_the_common_ones_are_kept():
    records = as_json(*({"common": 1, f"user-{number}": 1} for number in range(1_000)))
    names = found(records, format="json")
    assert len(names) == MOST
    assert names["common"] == (1_000, 0)


@pytest.mark.parametrize(
    ("name", "kept"), [("a\0b\n", "a\\x00b\\n"), ("x" * 500, "x" * 200 + "…"), ("é 😀", "é 😀"), ("", '""')]
)
def test_a_name_is_kept_on_one_line_and_not_of_any_length(name, kept):
    assert cleaned(name) == kept


def test_where_the_declaration_says_so_such_a_record_is_a_reject():
    format_ = kinds.declared(Value.model_validate({"format": "json", "columns": COLUMNS, "unknown": "reject"}), Path())
    records = as_json(
        {"id": 1}, {"id": 2, "more": 1, "at": {"y": 1}}, {"id": "x", "more": 1}, {"at": {"lines": [{"sku": "a"}]}}
    )
    given = decoded(format_, records, NoSchemas())
    assert given.kept.to_pylist() == [0, 3]
    assert given.rejected[1] == "fields that are not declared, as unknown: reject says: more, at.y"
    assert [*given.rejected] == [1, 2]
    assert given.undeclared == {"more": (2, 1), "at.y": (1, 1)}


def record(name, **types):
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in types.items()]}


def test_avro_has_the_fields_of_the_schemas():
    lines = {"type": "array", "items": record("Line", sku="string", n="int")}
    first = record("Order", id="long")
    last = record("Order", number="long", more="int", at=["null", record("At", x="int", y="int", lines=lines)])
    given = Given({1: Schema(kind="AVRO", text=json.dumps(first)), 2: Schema(kind="AVRO", text=json.dumps(last))})
    one = framed(2, written(last, {"number": 1, "more": 2, "at": None}))
    records = [framed(1, written(first, {"id": 1})), b"", one, one, one]
    section = {"format": "avro", "frame": "confluent", "aliases": {"id": ["number"]}}
    assert found(records, given, **section) == {"more": (3, 2), "at.y": (3, 2), "at.lines[].n": (3, 2)}
    assert refused(records, given, **section) == {2, 3, 4}


def test_protobuf_has_the_fields_of_the_schemas():
    schema = (
        'syntax = "proto3"; message M { int64 number = 1; string more = 2; At at = 3; }'
        " message At { int32 x = 1; int32 y = 2; repeated Line lines = 3; } message Line { string sku = 1; int32 n = 2; }"
    )
    given = Given(
        {
            1: Schema(kind="PROTOBUF", text=schema),
            2: Schema(kind="PROTOBUF", text='syntax = "proto3"; message M { int64 id = 1; }'),
        }
    )
    record = message_class(schema, "M")(number=1).SerializeToString()
    records = [
        framed(2, b"\0\x08\x01"),
        framed(1, b"\0" + record),
        framed(1, b"\2\2" + record),
        framed(1, b"\0" + record),
    ]
    section = {"format": "protobuf", "frame": "confluent", "message": "M", "aliases": {"id": ["number"]}}
    assert found(records, given, **section) == {"more": (2, 1), "at.y": (2, 1), "at.lines[].n": (2, 1)}
    assert refused(records, given, **section) == {1, 2, 3}


def kept(values, **section):
    """Return what the column of the rest holds of each record, or why it is a reject."""
    value = Value.model_validate({"format": "json", "columns": {"id": "bigint"}, "unknown": "keep", **section})
    found = decoded(kinds.declared(value, Path()), values, NoSchemas())
    rows = dict(zip(found.kept.to_pylist(), found.table.column("unknown_fields").to_pylist(), strict=True))
    return [rows[place] if place in rows else found.rejected[place] for place in range(len(values))]


def test_what_no_column_takes_is_kept_as_it_is_written_and_counted_all_the_same():
    assert kept([b'{"id": 1, "x" : 1.10, "y": {"z":[ 1]}}', b'{"id": 2}', b'{"x": null}', b'{"x": 1, "x": 2}']) == [
        '{"x":1.10,"y":{"z":[ 1]}}',
        None,
        None,
        '{"x":1,"x":2}',
    ]
    value = Value.model_validate({"format": "json", "columns": {"id": "bigint"}, "unknown": "keep"})
    found = decoded(kinds.declared(value, Path()), [b'{"id": 1, "x": null}', b'{"y": 1}'], NoSchemas())
    assert {name: one.n_records for name, one in found.undeclared.items()} == {"x": 1, "y": 1}


@pytest.mark.parametrize("record", [b'{"id": 1, "x": ["a\\u0000"]}', b'{"id": 1, "x\\u0000": 1}'])
def test_what_jsonb_cannot_hold_makes_the_record_a_reject_and_is_not_left_out(record):
    [reason] = kept([record])
    assert reason.endswith("text holds U+0000, which PostgreSQL cannot store")


def test_columns_of_json_stand_beside_what_no_column_takes():
    value = {"format": "json", "columns": {"id": "bigint", "doc": "json"}}
    assert kept([b'{"doc": {"a": 1}, "id": 1, "x": 2}'], **value) == ['{"x":2}']


def test_fields_of_a_changed_row_are_kept():
    change = {"op": "c", "after": {"id": 1, "more": [1.5]}, "before": None, "source": {"lsn": 1}, "ts_ms": 1}
    assert kept([json.dumps(change).encode()], format="debezium") == ['{"more":[1.5]}']
