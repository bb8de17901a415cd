"""The names of column types: what parses, and the error messages."""

import pytest

from tideline.domain.columns import ArrayType, DecimalType, SimpleType, StructType, parse_type


@pytest.mark.parametrize(
    "name", ["string", "boolean", "smallint", "int", "bigint", "float", "double", "timestamp", "date"]
)
def test_simple_types_are_their_names(name):
    assert parse_type(name) == SimpleType(name)


def test_case_and_spaces_do_not_matter():
    assert parse_type(" Array < BIGINT > ") == parse_type("array<bigint>")


def test_nested_types_keep_their_shape():
    assert parse_type("struct<id: bigint, lines: array<struct<price: decimal(12,4)>>>") == StructType(
        fields=(
            ("id", SimpleType("bigint")),
            ("lines", ArrayType(element=StructType(fields=(("price", DecimalType(precision=12, scale=4)),)))),
        )
    )


@pytest.mark.parametrize(
    "text", ["int", "decimal(38,38)", "array<date>", "struct<a: int, b: array<struct<c: string>>>"]
)
def test_a_type_prints_as_the_text_it_parses_from(text):
    assert str(parse_type(text)) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("strng", "unknown type 'strng'; known: string, boolean"),
        ("", "unknown type ''"),
        ("array<strng>", "unknown type 'strng'"),
        ("decimal", "expected '(', found 'the end'"),
        ("decimal(x,2)", "expected a number, found 'x'"),
        ("decimal(39,2)", "decimal(39,2): precision must be 1 to 38"),
        ("decimal(0,0)", "precision must be 1 to 38"),
        ("decimal(4,5)", "scale must be 0 to the precision, 4"),
        ("array<int", "expected '>', found 'the end'"),
        ("int int", "expected nothing after int, found 'int'"),
        ("int\0", "expected nothing after int"),
        ("struct<>", "expected a field name, found '>'"),
        ("struct<a int>", "expected ':', found 'int'"),
        ("struct<a: int; b: int>", "expected ',' or '>', found ';'"),
        ("struct<a: int, a: int>", "field 'a' is declared twice"),
    ],
)
def test_an_error_names_the_part_that_is_wrong(text, problem):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the text is what is tested
        parse_type(text)
    assert problem in str(caught.value)
