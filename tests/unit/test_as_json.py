"""Columns become JSON texts that every parser reads as the same values."""

import base64
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.formats.as_json import can_encode, encoded, objects
from tideline.formats.encoder import UnencodableError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NESTED = pa.struct({"t": pa.string(), "l": pa.list_(pa.int64()), "m": pa.map_(pa.string(), pa.list_(pa.string()))})
NESTED_VALUES = st.none() | st.fixed_dictionaries(
    {
        "t": st.none() | TEXTS,
        "l": st.none() | st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3),
        "m": st.none() | st.dictionaries(TEXTS, st.none() | st.lists(st.none() | TEXTS, max_size=2), max_size=3),
    }
)


def parsed(values: pa.Array) -> list[object]:
    return [json.loads(text) for text in encoded(values).to_pylist()]


@given(st.lists(st.none() | TEXTS))
def test_every_text_comes_back(texts):
    assert parsed(pa.array(texts, pa.string())) == texts


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)))
def test_every_finite_number_comes_back(numbers):
    assert parsed(pa.array(numbers, pa.float64())) == numbers


@given(
    st.lists(
        st.none() | st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**20), max_value=10**20)
    )
)
def test_every_decimal_comes_back_with_all_its_digits(numbers):
    texts = encoded(pa.array(numbers, pa.decimal128(38, 4))).to_pylist()
    assert [json.loads(text, parse_float=Decimal, parse_int=Decimal) for text in texts] == numbers


@given(st.lists(NESTED_VALUES, max_size=5), st.integers(0, 3))
def test_every_nested_value_comes_back_from_a_slice_too(values, start):
    array = pa.array(values, NESTED).slice(start)
    expected = [
        None if one is None else one | {"m": None if one["m"] is None else dict(one["m"])} for one in values[start:]
    ]
    assert parsed(array) == expected


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (True, pa.bool_(), "true"),
        (2**63 - 1, pa.int64(), "9223372036854775807"),
        (b"\x00\xff", pa.binary(), json.dumps(base64.b64encode(b"\x00\xff").decode())),
        (date(2026, 11, 23), pa.date32(), '"2026-11-23"'),
        (time(1, 2, 3), pa.time64("us"), '"01:02:03.000000"'),
        (datetime(2026, 11, 23, 1, 2, 3, 45, UTC), pa.timestamp("us", "UTC"), '"2026-11-23T01:02:03.000045Z"'),
        (
            datetime(2026, 11, 23, 1, 2, 3, tzinfo=UTC),
            pa.timestamp("ms", "Europe/Berlin"),
            '"2026-11-23T01:02:03.000000Z"',
        ),
        (datetime(2026, 11, 23, 1, 2, 3), pa.timestamp("us"), '"2026-11-23T01:02:03.000000"'),  # noqa: DTZ001
        (None, pa.null(), "null"),
        (1.0, pa.float32(), "1"),
        ([1, None], pa.list_(pa.int64(), 2), "[1,null]"),
        ([], pa.large_list(pa.string()), "[]"),
        ("é\u2028", pa.large_string(), '"é\u2028"'),
    ],
)
def test_a_value_has_this_form(value, kind, expected):
    assert can_encode(kind)
    assert encoded(pa.array([value, None], kind)).to_pylist() == [expected, "null"]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_does_not_have_are_refused(number):
    with pytest.raises(UnencodableError, match="no NaN"):
        encoded(pa.array([1.0, None, number]))


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.list_(pa.duration("us")), pa.map_(pa.int64(), pa.string())])
def test_types_without_a_form_are_known(kind):
    assert not can_encode(kind)


def test_an_object_has_a_member_for_each_column():
    columns = [pa.array([1, None]), pa.array(["x", None])]
    assert objects(["a", 'b"'], columns, 2).to_pylist() == ['{"a":1,"b\\"":"x"}', '{"a":null,"b\\"":null}']
    assert objects([], [], 2).to_pylist() == ["{}", "{}"]
