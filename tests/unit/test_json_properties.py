"""JSON decoding compared with an oracle that judges each record alone, in plain Python, over records broken in every way."""

import json
import re
from datetime import UTC, datetime
from decimal import Decimal

import orjson
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reject_reason import decoder
from tideline.domain.columns import parse_type
from tideline.formats.json_prefilter import suspect_fault
from tideline.formats.json_validation import object_in, type_fault

COLUMNS = {
    "a": "bigint",
    "s": "string",
    "p": "decimal(6,2)",
    "f": "float",
    "t": "timestamp",
    "l": "array<smallint>",
    "o": "struct<a: int, s: string>",
}
TYPES = {name: parse_type(kind) for name, kind in COLUMNS.items()}
decode = decoder("json", TYPES)
glance, judge = suspect_fault(TYPES), type_fault(TYPES)


class RefusedError(Exception):
    """Raised by the oracle for a reject."""


def oracle(raw):
    """Return what `raw` decodes to with the declared columns, or None where it must be rejected."""
    try:
        if not isinstance(orjson.loads(raw), dict):
            return None
        pairs = json.loads(raw.decode(), object_pairs_hook=Pairs, parse_float=Decimal)
        return one_object(pairs, {name: RULES[kind] for name, kind in COLUMNS.items()})
    except (orjson.JSONDecodeError, RefusedError):
        return None


class Pairs(list):
    """A JSON object with its keys in the original order, so that a duplicate key is detected."""


def refuse_unless(fits):
    if not fits:
        raise RefusedError


def one_object(value, rules):
    refuse_unless(isinstance(value, Pairs))
    row = dict.fromkeys(rules)
    seen = set()
    for name, inner in value:
        if name in rules:
            refuse_unless(name not in seen)
            seen.add(name)
            row[name] = None if inner is None else rules[name](inner)
    return row


def integer(limit):
    def rule(value):
        refuse_unless(type(value) is int and -limit <= value < limit)
        return value

    return rule


def text(value):
    refuse_unless(isinstance(value, str) and "\0" not in value)
    return value


def decimal(value):
    if isinstance(value, str):
        refuse_unless(re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value))
    refuse_unless(type(value) in (int, str, Decimal))
    exact = Decimal(value)
    refuse_unless(abs(exact) < 10**4 and exact == round(exact, 2))
    return exact


def single(value):
    refuse_unless(type(value) in (int, Decimal))
    nearest = pa.scalar(str(value)).cast(pa.float32()).as_py()  # from text: a double rounds twice
    refuse_unless(abs(nearest) != float("inf"))
    return nearest


def moment(value):
    refuse_unless(isinstance(value, str))
    refuse_unless(
        re.fullmatch(r"\d{4}-\d\d-\d\d[T ]\d\d(:\d\d(:\d\d(\.\d{1,6})?)?)?(Z|[+-]\d\d(:?\d\d)?)", value, re.ASCII)
    )
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError):
        raise RefusedError from None


def array(value):
    refuse_unless(type(value) is list)
    return [None if inner is None else integer(1 << 15)(inner) for inner in value]


RULES = {
    "bigint": integer(1 << 63),
    "string": text,
    "decimal(6,2)": decimal,
    "float": single,
    "timestamp": moment,
    "array<smallint>": array,
    "struct<a: int, s: string>": lambda value: one_object(value, {"a": integer(1 << 31), "s": text}),
}

PIECES = [
    '{"o":',
    '{"a":1}}',
    "{}{}",
    '{"a":1},"x":{}',
    "{",
    "}",
    '"',
    "[",
    "]",
    ",",
    ":",
    "\\",
    "\n",
    " ",
    "\0",
    "\x1f",
]
PIECES += ["\\u0000", "\\ud800", "NaN", "-Infinity", "null", "1e400", "1e39", "9" * 19, "1.005", "0", "-", "e", "}\n{"]
PIECES += [',"a":2', ',"a":null', '"s":1', '"a":1.0', '"t":"2026-01-01T00:00:00"', '"t":"2026-01-01"', "\ufeff", "é"]

VALUES = {
    "a": st.integers(-(1 << 64), 1 << 64) | st.integers(-9, 9),
    "s": st.text(max_size=6),
    "p": st.decimals(-20_000, 20_000, places=2).map(float) | st.sampled_from(["1.5", "x", 12.345, 0.1, 9999.99]),
    "f": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
    "t": st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC)).map(datetime.isoformat),  # noqa: DTZ001  # a bound
    "l": st.lists(st.none() | st.integers(-40_000, 40_000), max_size=3),
    "o": st.fixed_dictionaries({}, optional={"a": st.integers(-9, 9), "s": st.text(max_size=3), "z": st.booleans()}),
    "z": st.recursive(st.none() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=2), max_leaves=4),
}
VALUES = {name: st.none() | kind for name, kind in VALUES.items()}
whole = st.builds(
    lambda row, indent: json.dumps(row, indent=indent, ensure_ascii=bool(indent)).encode(),
    st.fixed_dictionaries({}, optional=VALUES),
    st.sampled_from([None, None, 1]),
)


@st.composite
def broken(draw):
    record = draw(whole)
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.integers(0, len(record)))
        end = draw(st.integers(start, min(len(record), start + 5)))
        middle = draw(st.sampled_from([b"", record[start:end] * 2, *(piece.encode() for piece in PIECES)]))
        record = record[:start] + middle + record[end:]
    return record


records = st.lists(whole | broken() | st.sampled_from(PIECES).map(str.encode) | st.binary(max_size=8), max_size=12)


# Each of these just fits its column, and must still fit when a neighbour makes the batch fail.
NEAR_THE_LIMITS = [
    b'{"f":3.4028235677973366e38}',
    b'{"p":1105.00000000}',
    b'{"p":0e5}',
    b'{"p":"+.5"}',
    b'{"a":-9223372036854775808}',
    b'{"t":"2026-01-02 03:04+02"}',
    b'{"z":1,"z":2}',
    b'{"a":"offender"}',
]


@settings(max_examples=100)
@given(records)
@example(NEAR_THE_LIMITS)
def test_a_batch_keeps_what_the_oracle_keeps_and_rejects_the_rest(batch):
    decoded = decode(pa.array(batch, pa.binary()))
    expected = {place: row for place, raw in enumerate(batch) if (row := oracle(raw)) is not None}
    assert decoded.kept.to_pylist() == list(expected)
    assert decoded.table.to_pylist() == list(expected.values())
    assert sorted([*expected, *decoded.rejected]) == list(range(len(batch)))


@settings(max_examples=50)
@given(records)
@example(NEAR_THE_LIMITS)
def test_decoding_a_batch_equals_decoding_each_record_alone(batch):
    together = decode(pa.array(batch, pa.binary()))
    alone = [decode(pa.array([raw], pa.binary())) for raw in batch]
    assert together.table.to_pylist() == [row for one in alone for row in one.table.to_pylist()]
    assert together.rejected == {place: one.rejected[0] for place, one in enumerate(alone) if one.rejected}


@settings(max_examples=100)
@given(records)
@example(NEAR_THE_LIMITS)
def test_a_glance_says_what_the_judge_says_or_nothing(batch):
    for raw in batch:
        found = object_in(raw)
        assert isinstance(found, str) or glance(raw, found) in {None, judge(raw)}


@settings(max_examples=100)
@given(records)
@example(NEAR_THE_LIMITS)
def test_a_batch_behind_bad_records_is_decoded_as_any_other(batch):
    wary = decoder("json", TYPES)
    wary._is_wary = True
    expected, decoded = decode(pa.array(batch, pa.binary())), wary(pa.array(batch, pa.binary()))
    assert decoded.rejected == expected.rejected
    assert decoded.table.equals(expected.table)
