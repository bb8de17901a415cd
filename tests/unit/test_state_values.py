"""A value of a state comes back from JSON as it was, or is refused. Equal keys are equal texts. Old states fit new columns."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.domain.columns import parse_type
from tideline.formats.arrow_types import arrow_type
from tideline.state.keys import key_reader, key_text
from tideline.state.typed_values import MisfitError, fit, fit_columns, restore, restore_columns, write_columns

TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"))
MOMENTS = st.datetimes(
    min_value=datetime(1, 1, 3),  # noqa: DTZ001
    max_value=datetime(9999, 12, 29),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5))]),
)
VALUES = {
    "string": TEXTS,
    "boolean": st.booleans(),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats() | st.integers(-(2**53), 2**53),
    "timestamp": MOMENTS,
    "date": st.dates(),
    "decimal(18,6)": st.decimals(-(10**11), 10**11, places=6) | st.integers(-(10**11), 10**11),
    "decimal(38,38)": st.decimals(-1, 1, places=38).filter(lambda number: abs(number) < 1),
    "array<double>": st.lists(st.none() | st.floats(), max_size=4),
    "struct<a: timestamp, b: array<string>>": st.fixed_dictionaries({"a": st.none() | MOMENTS, "b": st.none() | st.lists(TEXTS, max_size=3)}),
}  # fmt: skip


def same(one, other):
    """Compare values; NaN is like NaN, and 0.0 is not like -0.0."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("kind", VALUES)
def test_what_fits_comes_back_from_json_as_it_was_and_fits_arrow(kind):
    columns = {"x": parse_type(kind)}

    @settings(max_examples=25)
    @given(VALUES[kind])
    def check(value):
        found = fit_columns(columns)({"x": value})
        assert same(restore_columns(columns, {})(orjson.loads(write_columns(columns)(found))), found)
        assert same(fit_columns(columns)(found), found)
        assert pa.array([found["x"]], arrow_type(columns["x"])).null_count == 0

    check()


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", True, "expected int, found bool"),
        ("int", 2**31, "too large for int"),
        ("boolean", 1, "expected boolean, found int"),
        ("string", b"x", "expected string, found bytes"),
        ("string", "a\0b", r"U\+0000"),
        ("string", "\ud800", "half of a surrogate pair"),
        ("double", "1", "expected double, found str"),
        ("double", 10**400, "too large for double"),
        ("float", 1e39, "too large for float"),
        ("decimal(4,2)", 100, r"too many digits for decimal\(4,2\)"),
        ("decimal(4,2)", Decimal("1.234"), "too many digits after the point"),
        ("decimal(4,2)", Decimal("NaN"), "found NaN"),
        ("decimal(4,2)", 1.5, "found float"),
        ("timestamp", date(2026, 1, 1), "expected timestamp, found date"),
        ("timestamp", datetime(2026, 1, 1), "without a zone"),  # noqa: DTZ001
        ("timestamp", datetime.min.replace(tzinfo=timezone(timedelta(hours=5))), "years 1 to 9999"),
        ("date", datetime(2026, 1, 1, tzinfo=UTC), "expected date, found datetime"),
        ("array<int>", "12", "found str"),
        ("array<int>", [1, "2"], "expected int, found str"),
        ("struct<a: int>", {"b": 1}, "column b: not declared"),
        ("struct<a: int>", {"a": "1"}, "column a: expected int"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_and_nothing_is_coerced(kind, value, expected):
    with pytest.raises(MisfitError, match=expected):
        fit(parse_type(kind))(value)


def test_a_column_that_is_missing_is_null_and_nulls_are_not_stored():
    columns = {"a": parse_type("int"), "b": parse_type("string")}
    assert fit_columns(columns)({"b": "x"}) == {"a": None, "b": "x"}
    assert write_columns(columns)({"a": None, "b": "x"}) == b'{"b":"x"}'


def test_states_of_former_columns_fit_the_new_ones():
    stored = {"clicks": 3, "gone": True, "total": "1.50"}
    columns = {"clicks": parse_type("bigint"), "added": parse_type("date"), "revenue": parse_type("decimal(12,2)")}
    found = restore_columns(columns, {"revenue": ("total",)})(stored)
    assert found == {"clicks": 3, "added": None, "revenue": Decimal("1.50")}
    assert restore_columns(columns, {"revenue": ("sum", "total")})({**stored, "revenue": "2.00"})["revenue"] == Decimal(
        2
    )


@given(
    TEXTS, st.integers(-(2**63), 2**63 - 1), MOMENTS, st.dates(), st.decimals(-(10**5), 10**5, places=2), st.booleans()
)
def test_a_key_comes_back_from_its_text(text, number, moment, day, exact, flag):  # noqa: PLR0917 - one for each type
    kinds = [parse_type(name) for name in ("string", "bigint", "timestamp", "date", "decimal(12,2)", "boolean")]
    values = [fit(kind)(one) for kind, one in zip(kinds, (text, number, moment, day, exact, flag), strict=True)]
    assert key_reader(kinds)(key_text(values)) == tuple(values)
    for kind, value in zip(kinds, values, strict=True):
        assert key_reader([kind])(key_text([value])) == value
        assert restore(kind)(orjson.loads(key_text([value]))[0]) == value


def test_the_text_of_a_key_is_short_and_has_one_form():
    assert key_text(["u1"]) == '["u1"]'
    assert key_text(["ü", 12]) == '["ü",12]'
    assert key_text([Decimal("1.50"), True]) == '["1.50",true]'
    assert key_text([datetime(2026, 1, 2, tzinfo=UTC)]) == '["2026-01-02T00:00:00Z"]'
