"""The columns that `tideline new` infers: every record decodes with them, unless it said that it was unsure."""

import json
import math
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reject_reason import decoder
from sampled_records import NOW_MS, surveyed, written
from tideline.declaration import pipelines
from tideline.testing import trial

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT | st.dates().map(str) | st.uuids().map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)
RECORDS = st.lists(st.dictionaries(TEXT | st.sampled_from("abc"), JSON, max_size=4), min_size=1, max_size=8)
SHAPES = st.recursive(
    st.sampled_from(
        [st.booleans(), st.integers(-(2**63), 2**63 - 1), TEXT, st.floats(allow_nan=False, allow_infinity=False)]
    ),
    lambda inner: (
        inner.map(lambda value: st.lists(value, max_size=3))
        | st.dictionaries(st.sampled_from(["id", "user_id", "Total"]), inner, min_size=1).map(
            lambda fields: st.fixed_dictionaries({}, optional=fields)
        )
    ),
    max_leaves=4,
)
QUIET = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def types(seen):
    return {field.name: str(field.kind) for field in seen.fields}


def doubted(seen):
    return {doubt.subject for doubt in seen.doubts}


def tried(seen, values):
    """Write the pipeline and return what becomes of the values."""
    with tempfile.TemporaryDirectory() as folder:
        pipeline = written(Path(folder), seen)
        pipelines.load(pipeline)
        return trial(pipeline, values)


@QUIET
@given(RECORDS)
def test_any_records_give_a_pipeline_that_loads_and_rejects_only_what_it_doubted(records):
    values = [json.dumps(record).encode() for record in records]
    seen = surveyed(*records)
    rejects = tried(seen, values).rejects
    said = [doubt.seen for doubt in seen.doubts if "cannot be decoded" in doubt.seen]
    assert sum(int(text.split()[0]) for text in said) == len(rejects)
    assert len(seen.good) == len(values) - len(rejects)


@QUIET
@given(st.data())
def test_records_of_one_shape_are_all_decoded(data):
    shape = data.draw(st.dictionaries(st.sampled_from(["id", "userId", "items", "when"]), SHAPES, min_size=1))
    records = data.draw(st.lists(st.fixed_dictionaries({}, optional=shape), min_size=1, max_size=8))
    values = [json.dumps(record).encode() for record in records]
    result = tried(surveyed(*records), values)
    assert result.rejects == []
    assert len(result.rows) == len(values)


@QUIET
@given(st.lists(st.binary(max_size=8) | st.none(), min_size=1, max_size=8))
def test_any_bytes_give_a_pipeline_that_rejects_only_what_it_doubted(values):
    seen = surveyed(*values)
    rejects = tried(seen, values).rejects
    assert len(seen.good) == len(values) - len(rejects)
    assert not rejects or any("become rejects" in doubt.chosen for doubt in seen.doubts)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, -(2**63), 2**63 - 1], "bigint"),
        ([1, 2**63], "decimal(38,0)"),
        ([1, 10**40], "double"),
        ([1, 2.5], "double"),
        ([True, None, False], "boolean"),
        (["2026-01-31T10:00:00Z", "2026-01-31 10:00:00.123+02:00"], "timestamp"),
        (["2026-01-31T10:00:00"], "string"),
        (["2026-01-31", "2024-02-29"], "date"),
        (["2026-01-31", "2026-02-30"], "string"),
        (["1.50", "-20.25"], "decimal(18,2)"),
        (["1.50", 3, 2.125], "decimal(18,3)"),
        (["1." + "5" * 30, "1234.5"], "decimal(38,30)"),
        (["1." + "5" * 40], "string"),
        (["007", "008"], "string"),
        ([[1], [], [2, None]], "json"),
        ([{"sku": "a", "n": 1}, {"sku": None}], "json"),
        ([[{"at": "2026-01-31T10:00:00Z"}]], "json"),
    ],
)
def test_values_have_this_type(values, kind):
    assert types(surveyed(*({"a": value} for value in values))) == {"a": kind}


@pytest.mark.parametrize(
    ("values", "kind", "seen"),
    [
        ([1, 2, "x"], "json", "values of several types: 2 numbers, 1 string"),
        ([{"a": 1}, [2], ""], "json", "values of several types: 1 object, 1 array, 1 string"),
        ([{"a": 1}], "json", "objects, which may hold anything"),
        ([[1]], "json", "arrays, which may hold anything"),
        ([0.25, 10.5], "double", "fractions of at most 4 digits"),
        ([NOW_MS, NOW_MS - 1], "bigint", "whole numbers that can be times since 1970, in ms"),
        ([NOW_MS // 1000], "bigint", "whole numbers that can be times since 1970, in s"),
        (["2026-01-31T10:00:00"], "string", "timestamps without a zone, which are no points in time"),
    ],
)
def test_what_values_do_not_decide_is_a_doubt(values, kind, seen):
    found = surveyed(*({"a": value} for value in values))
    assert types(found) == {"a": kind}
    assert seen in {doubt.seen for doubt in found.doubts if doubt.subject == "a"}


def test_fields_that_cannot_be_columns_are_left_out_and_named():
    record = {"": 1, "kafka": 1, "größe": 1, "n" * 61: 1, "nothing": None, "empty": [], "hollow": {}, "id": 1}
    found = surveyed(record)
    assert types(found) == {"empty": "json", "hollow": "json", "id": "bigint"}
    left_out = {doubt.subject for doubt in found.doubts if doubt.chosen.startswith("left out")}
    assert len(left_out) == len(record) - 3


def test_a_map_keeps_its_most_common_names():
    records = [{"id": number, f"user {number}": 1} for number in range(300)]
    found = surveyed(*records)
    assert len(found.fields) == 200
    assert "id" in types(found)
    assert "the record" in doubted(found)


def test_nulls_and_missing_fields_are_counted():
    (field,) = surveyed({"a": 1}, {"a": None}, {}, {"a": 2}).fields
    assert (field.n_null, field.n_missing) == (1, 1)


def test_records_that_are_no_objects_are_doubted():
    found = surveyed({"a": 1}, {"a": 2}, b"no JSON", None)
    assert found.value_format == "json"
    assert any("1 of 4 records are tombstones" in doubt.seen for doubt in found.doubts)
    assert any("1 of 3 cannot be decoded" in doubt.seen for doubt in found.doubts)


@pytest.mark.parametrize(
    ("values", "value_format"),
    [([b"a", b"b,c"], "text"), ([b"\x00\x00\x00\x00\x01x"], "bytes"), ([b"[1]"], "text"), ([{}, {}], "text")],
)
def test_values_that_are_no_objects_are_text_or_bytes(values, value_format):
    assert surveyed(*values).value_format == value_format


def test_keys_and_headers_are_described():
    found = surveyed({"a": 1}, {"a": 2}, {"a": 3}, key=lambda n: b"user-%d" % (n % 2), headers=[("trace", b"1")])
    assert found.keys == "text, in all records, 2 different ones"
    assert found.headers == ("trace",)
    assert surveyed({"a": 1}).keys == "none"


def test_numbers_beyond_a_double_are_not_counted_as_json():
    assert math.isinf(float("1e400"))
    assert surveyed(b'{"a": 1e400}').value_format == "text"


def test_a_field_that_is_an_object_a_list_or_an_empty_text_in_turn_rejects_no_record():
    mixed = [({"city": "Bonn", "at": [1, 2]}, [{"x": 1}], "")[number % 3] for number in range(600)]
    found = surveyed(*({"id": number, "place": place} for number, place in enumerate(mixed)))
    assert types(found) == {"id": "bigint", "place": "json"}
    assert len(found.good) == 600
    assert "place" in doubted(found)


def test_rare_fields_of_nested_objects_are_in_the_column():
    objects = [{"id": number, "user": {"name": "a", f"rare_{number}": {"deep": number}}} for number in range(300)]
    found = surveyed(*objects)
    decode = decoder("json", {field.name: field.kind for field in found.fields})
    later = {"id": 1, "user": {"never_seen": [1, {"a": None}]}}
    column = decode(pa.array([json.dumps(one).encode() for one in [*objects, later]], pa.binary())).table.column("user")
    assert [json.loads(one) for one in column.to_pylist()] == [one["user"] for one in [*objects, later]]
