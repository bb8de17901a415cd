"""Values that a Postgres column cannot hold are refused before COPY, which would change them silently."""

import re

import pyarrow as pa
import pytest

from tideline.domain.columns import parse_type
from tideline.formats.arrow_types import arrow_type
from tideline.settings import PROJECT
from tideline.sinks.postgres.column_types import SUPPORTED, Column, converted, misfit


def varchar(length):
    return Column(name="name", type_name="character varying", precision=None, scale=None, length=length, required=False)


@pytest.mark.parametrize("text", ["abcd", "abc ", "abc  ", "äöüß"])
def test_text_longer_than_its_column_does_not_fit_even_if_only_blanks_are_too_many(text):
    with pytest.raises(ValueError, match=r"value too long for type character varying\(3\)"):
        converted(pa.chunked_array([["a", text]]), varchar(3))


@pytest.mark.parametrize("text", ["abc", "ab ", "äöü", "", None])
def test_text_of_as_many_characters_as_its_column_has_fits(text):
    values = pa.chunked_array([[text]], pa.string())
    assert converted(values, varchar(3)).equals(values)


SHORT = {
    "character varying": "varchar",
    "character": "char",
    "timestamp with time zone": "timestamptz",
    "time without time zone": "time",
}
EXAMPLES = {
    "decimal(p,s)": "decimal(9,2)",
    "array<T>": "array<struct<a: int>>",
    "struct<name: T, ...>": "struct<a: int>",
}


def test_the_docs_list_the_types_of_postgres_that_take_each_declared_type():
    lines = (
        (PROJECT / "docs" / "pipelines.md").read_text().partition("## Column types")[2].split("\n\n")[1].splitlines()
    )
    listed = {}
    for line in lines[2:]:
        declared, _, taking = (re.findall(r"`([^`]+)`", cell) for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        listed |= {one: {kind for kind in taking if not kind.endswith("[]") and kind != "T"} for one in declared}
    found = {}
    for declared in listed:
        produced = arrow_type(parse_type(EXAMPLES.get(declared, declared)))
        columns = [Column(name="c", type_name=one, precision=None, scale=None, required=False) for one in SUPPORTED]
        fitting = {one.type_name for one in columns if misfit(produced, one) is None}
        found[declared] = {SHORT.get(one, one) for one in fitting}
    assert listed.pop("json") < found.pop("json")  # it is text, and what else takes text is not for it
    assert found == listed
