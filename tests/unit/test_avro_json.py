"""Columns of the type `json` hold values of Avro whole, whatever type they have: what another library reads is in them."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

import avro_records
from format_contract import decoded, outcomes
from tideline.domain.columns import parse_type
from tideline.domain.schemas import NoSchemas
from tideline.formats.avro.avro_format import AvroFormat
from tideline.formats.avro.lockstep import MOST_ROUNDS
from tideline.formats.avro.schema import parsed
from tideline.formats.reader import Reader

LONG = 3 * MOST_ROUNDS
"""So many items that a record is read by itself."""


def schema_of(kind):
    return {"type": "record", "name": "Row", "fields": [{"name": "v", "type": kind}, {"name": "n", "type": "long"}]}


def read(kind, records):
    reader = Reader(columns={"v": parse_type("json"), "n": parse_type("bigint")}, aliases={}, defaults={})
    format_ = AvroFormat(reader, parsed(json.dumps(schema_of(kind))))
    return [
        one if isinstance(one, str) else one["v"] and json.loads(one["v"], parse_float=Decimal)
        for one in outcomes(decoded(format_, records, NoSchemas()), len(records))
    ]


def values(kind, *given_values):
    return read(kind, [avro_records.written(schema_of(kind), {"v": one, "n": 1}) for one in given_values])


SAID = [
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3},
        Decimal("123456789012345678901234567.890"),
        None,
    ),
    ({"type": "int", "logicalType": "date"}, date(1, 1, 1), "0001-01-01"),
    ({"type": "int", "logicalType": "time-millis"}, time(1, 2, 3, 4_000), "01:02:03.004000"),
    ({"type": "long", "logicalType": "time-micros"}, time(23, 59, 59, 999_999), "23:59:59.999999"),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        datetime(2026, 1, 2, 3, tzinfo=UTC),
        "2026-01-02T03:00:00.000Z",
    ),
    ({"type": "long", "logicalType": "timestamp-micros"}, datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000000Z"),
    (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        datetime(1960, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001 - it is local
        "1960-01-01T00:00:00.000001",
    ),
    ({"type": "fixed", "name": "F", "size": 2}, b"\x00\xff", "AP8="),
    ("bytes", b"", ""),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", None),
]


@pytest.mark.parametrize(("kind", "given_value", "said"), SAID, ids=lambda one: str(one)[:40])
def test_what_json_has_no_type_for_is_text_or_a_number_with_all_its_digits(kind, given_value, said):
    expected = given_value if said is None else said
    assert values(kind, given_value) == [expected]
    assert values({"type": "map", "values": kind}, {"a": given_value}, {}) == [{"a": expected}, {}]
    assert values({"type": "array", "items": kind}, [given_value] * LONG) == [[expected] * LONG]


SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"))
)
NESTED = [
    "null",
    "boolean",
    "long",
    "string",
    {"type": "array", "items": ["null", "boolean", "long", "string"]},
    {"type": "map", "values": ["null", "boolean", "long", "string"]},
]


@given(
    st.lists(
        SCALAR
        | st.lists(SCALAR, max_size=LONG)
        | st.dictionaries(st.text(max_size=5).filter(lambda one: "\0" not in one), SCALAR),
        max_size=9,
    )
)
def test_another_library_writes_what_is_read(given_values):
    known = fastavro.parse_schema(schema_of(NESTED))
    records = [avro_records.written(known, {"v": one, "n": 7}) for one in given_values]
    assert read(NESTED, records) == given_values


FAULTS = [
    ("double", b"\x00\x00\x00\x00\x00\x00\xf8\x7f", "v: the number is not finite"),
    ("string", b"\x02\xff", "v: not valid UTF-8"),
    ("string", b"\x02\x00", "v: text holds U+0000, which PostgreSQL cannot store"),
    ("boolean", b"\x02", "v: a boolean is neither 0 nor 1"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "v: an enum of 1 symbols has no such number"),
    ({"type": "int", "logicalType": "date"}, b"\xff\xff\xff\xff\x0f", "v: the date is outside of the years 1 to 9999"),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0},
        b"\x02\x64",
        "v: the decimal has more than the 2 digits",
    ),
]


@pytest.mark.parametrize(("kind", "data", "reason"), FAULTS, ids=lambda one: str(one)[:40])
def test_a_value_that_json_cannot_hold_makes_its_record_a_reject_and_no_other(kind, data, reason):
    good = avro_records.written(schema_of(["null", kind]), {"v": None, "n": 1})
    found = read(["null", kind], [good, b"\x02" + data + b"\x02", good])
    assert (found[0], found[2]) == (None, None)
    assert found[1].startswith(reason)
    long = read({"type": "array", "items": kind}, [b"\x02" + data + b"\x00\x02"])
    assert long[0].startswith(reason)
