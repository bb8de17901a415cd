"""A column of the type json holds the value of its field as it was written, whatever it is."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reject_reason import decoder
from tideline.domain.columns import SimpleType, parse_type
from tideline.formats.json_validation import syntax_fault


class Pairs(list):
    """The members of an object, in order; a key may be there twice."""


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.one_of(
    st.integers(-(10**30), 10**30),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.lists(st.tuples(texts, inner), max_size=4).map(Pairs)),
    max_leaves=12,
)
spaces = st.text(" \t\r\n", max_size=2)


def written(value, space="", *, ascii_only=False):
    """Return a value as JSON, written by hand, with a space around each sign."""
    match value:
        case Pairs():
            members = (
                f"{space}{json.dumps(k, ensure_ascii=ascii_only)}{space}:{space}{written(v, space)}{space}"
                for k, v in value
            )
            return f"{{{','.join(members)}{space}}}" if value else f"{{{space}}}"
        case list():
            return f"[{','.join(space + written(one, space) + space for one in value)}]"
        case Decimal():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=ascii_only)


def exact(text):
    """Parse JSON with all digits, and all members of objects in order."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal, object_pairs_hook=Pairs)


def decoded(*raws, columns=(("whole", "json"),)):
    return decoder("json", {name: parse_type(kind) for name, kind in columns})(pa.array(raws, pa.binary()))


@given(st.lists(st.tuples(values, values, spaces, st.booleans()), min_size=1, max_size=5))
def test_it_is_the_text_of_the_value_with_every_digit_member_and_order(drawn):
    raws, wholes = [], []
    for value, other, space, ascii_only in drawn:
        whole = written(value, space, ascii_only=ascii_only)
        raw = f'{space}{{{space}"other"{space}:{written(other, space)},{space}"whole"{space}:{space}{whole}{space},"n":1}}{space}'
        raws.append(raw.encode())
        wholes.append(whole)
    found = decoded(*raws, columns=(("n", "bigint"), ("whole", "json")))
    bad = {at for at, raw in enumerate(raws) if syntax_fault(raw) or "\\u0000" in wholes[at]}
    assert found.rejected.keys() == bad
    expected = [None if wholes[at] == "null" else exact(wholes[at]) for at in range(len(raws)) if at not in bad]
    assert [one if one is None else exact(one) for one in found.table.column("whole").to_pylist()] == expected
    assert found.table.column("n").to_pylist() == [1] * len(expected)
    assert found.table.column_names == ["n", "whole"]


@pytest.mark.parametrize(
    ("raw", "whole"),
    [
        (b'{"whole": 0.10000000000000000000000000000000000000001}', "0.10000000000000000000000000000000000000001"),
        (b'{"whole": {"a": 1, "a": 2}}', '{"a": 1, "a": 2}'),
        (b'{"who\\u006ce": [1]}', "[1]"),
        (b'{"other": {"whole": 1}}', None),
        (b'{"whole": null}', None),
        (b'{"whole": ""}', '""'),
        (b'{"whole": "}\\"]{"}', '"}\\"]{"'),
        (b'{"whole": "\\\\u0000"}', '"\\\\u0000"'),
        (b'{"whole": "\\ud83d\\ude00"}', '"\\ud83d\\ude00"'),
        (b'{"whole": ' + b"[" * 1000 + b"]" * 1000 + b"}", "[" * 1000 + "]" * 1000),
        (b"{ }", None),
    ],
)
def test_a_value_is_kept_as_it_is_written(raw, whole):
    found = decoded(raw)
    assert (found.rejected, found.table.column("whole").to_pylist()) == ({}, [whole])


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"whole": 1, "whole": 2}', "whole: is there twice"),
        (b'{"whole": {"a": "\\u0000"}}', "whole: text holds U+0000"),
        (b'{"whole": "\\ud83d"}', "not valid JSON"),
        (b'{"whole": NaN}', "not valid JSON"),
        (b'{"whole": ' + b"[" * 1100 + b"]" * 1100 + b"}", "not valid JSON"),
        (b'{"whole": 1} x', "not valid JSON"),
    ],
)
def test_what_postgres_cannot_hold_is_a_reject_and_its_neighbours_are_not(raw, reason):
    found = decoded(b'{"whole": 1}', raw, b'{"whole": {"b": [2]}}')
    assert [*found.rejected] == [1]
    assert found.rejected[1].startswith(reason)
    assert found.table.column("whole").to_pylist() == ["1", '{"b": [2]}']


@pytest.mark.parametrize("text", ["array<json>", "struct<a: json>"])
def test_it_is_the_type_of_a_whole_column_only(text):
    assert parse_type(" JSON ") == SimpleType("json")
    with pytest.raises(ValueError, match="json is the type of a whole column"):
        parse_type(text)
