"""Values that a Postgres column cannot hold are refused before COPY, which would change them silently."""

import pyarrow as pa
import pytest

from tideline.sinks.postgres.column_types import Column, converted


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
