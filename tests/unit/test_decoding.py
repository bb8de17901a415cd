"""What strict decoding keeps, what it rejects, and the reasons."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from reject_reason import decode, reason


def value(text, kind):
    """Return the value of column `v` in `{"v": <text>}`, decoded as `kind`."""
    decoded = decode([b'{"v": %s}' % text.encode()], v=kind)
    assert decoded.rejected == {}
    return decoded.table["v"][0].as_py()


def field_reason(text, kind):
    return reason(b'{"v": %s}' % text.encode(), v=kind)


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ('"\\u00e9\\"\\n{}[]"', "string", 'é"\n{}[]'),
        ("true", "boolean", True),
        ("-32768", "smallint", -32768),
        ("2147483647", "int", 2147483647),
        ("9223372036854775807", "bigint", 9223372036854775807),
        ("-0", "int", 0),
        ("0.5", "float", 0.5),
        ("3.4028235677973366e38", "float", 3.4028234663852886e38),
        ("12", "double", 12.0),
        ("1e-400", "double", 0.0),
        ("12.3", "decimal(12,4)", Decimal("12.3000")),
        ("12.30000000", "decimal(12,4)", Decimal("12.3000")),
        ('"99999999.9999"', "decimal(12,4)", Decimal("99999999.9999")),
        ("99999999.99990", "decimal(12,4)", Decimal("99999999.9999")),
        ("0e5", "decimal(1,1)", Decimal(0)),
        ("1e27", "decimal(38,10)", Decimal("1e27")),
        ('"2026-02-28"', "date", date(2026, 2, 28)),
        ('"2026-01-02T03:04:05Z"', "timestamp", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ('"2026-01-02 03:04:05.123456+02:00"', "timestamp", datetime(2026, 1, 2, 1, 4, 5, 123456, tzinfo=UTC)),
        ('"2026-01-02T03:04:05.1-0030"', "timestamp", datetime(2026, 1, 2, 3, 34, 5, 100000, tzinfo=UTC)),
        ("[1, null, 3]", "array<int>", [1, None, 3]),
        ('[{"b": "x", "c": 1}, {}]', "array<struct<b: string>>", [{"b": "x"}, {"b": None}]),
        ("null", "struct<a: int>", None),
    ],
)
def test_a_value_that_fits_is_decoded_exactly(text, kind, expected):
    assert value(text, kind) == expected


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("1", "string", "number 1"),
        ('"1"', "int", "string '1'"),
        ('"true"', "boolean", "string 'true'"),
        ("1", "boolean", "number 1"),
        ("true", "int", "true"),
        ("1.0", "int", "number 1.0"),
        ("32768", "smallint", "number 32768"),
        ("-2147483649", "int", "number -2147483649"),
        ("9223372036854775808", "bigint", "number 9223372036854775808"),
        ('"0.5"', "double", "string '0.5'"),
        ("1e39", "float", "number 1E+39"),
        ("12.34567", "decimal(12,4)", "number 12.34567"),
        ("123456789012", "decimal(12,4)", "number 123456789012"),
        ("1e30", "decimal(38,10)", "number 1E+30"),
        ('"1_0"', "decimal(12,4)", "string '1_0'"),
        ('"NaN"', "decimal(12,4)", "string 'NaN'"),
        ("true", "decimal(12,4)", "true"),
        ("20000", "date", "number 20000"),
        ('"2026-02-30"', "date", "string '2026-02-30'"),
        ("1767322800", "timestamp", "number 1767322800"),
        ('"2026-01-02T03:04:05"', "timestamp", "string '2026-01-02T03:04:05'"),
        ('"2026-01-02"', "timestamp", "string '2026-01-02'"),
        ('"2026-13-02T03:04:05Z"', "timestamp", "string '2026-13-02T03:04:05Z'"),
        ('"2026-01-02T03:04:05.123456789Z"', "timestamp", "string '2026-01-02T03:04:05.123456789Z'"),
    ],
)
def test_no_value_is_bent_to_fit_its_column(text, kind, found):
    words = {"timestamp": "timestamp with a zone, to the microsecond", "date": "date as 2026-01-31"}
    assert field_reason(text, kind) == f"v: expected {words.get(kind, kind)}, found {found}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1e-999999999", "decimal(38,10)"),  # these four would end the process
        ('"0E-999999999"', "decimal(12,4)"),
        ('"0e\\u002d999999999"', "decimal(12,4)"),
        ('["\\u0030\\u0065-999999999"]', "array<decimal(1,1)>"),
        ("1e-192", "decimal(38,0)"),  # and these become 0 and 50
        ("5000000000000000000000000000000000000000e-96", "decimal(38,0)"),
        ("0." + "0" * 75 + "5e-3", "decimal(38,0)"),
        ("[" * 1000 + "]" * 1000 + ', "w": 1e-999999999', "decimal(38,0)"),
    ],
)
def test_a_decimal_with_more_places_than_arrow_looks_up_is_rejected(text, kind):
    assert reason(b'{"v": %s}' % text.encode(), v=kind, w=kind)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (b'{"v": 1e-37}', Decimal("1e-37")),
        (b'{"v": 1%be-38}' % (b"0" * 38), Decimal(1)),
        (b'{"v": "0E-38"}', Decimal(0)),
        (b'{"v": 1.5, "d": 1e-300, "s": "1e-999"}', Decimal("1.5")),
        (b'{"v": 1.5, "s": "\\u0031"}', Decimal("1.5")),
    ],
)
def test_what_only_looks_like_such_a_decimal_is_decoded(record, expected):
    decoded = decode([record], v="decimal(38,37)", d="double", s="string")
    assert decoded.rejected == {}
    assert decoded.table["v"].to_pylist() == [expected]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("{}", "array<int>", "v: expected an array, found an object"),
        ("[]", "struct<a: int>", "v: expected an object, found an array"),
        ('[{"a": [1]}, {"a": [1, "x"]}]', "array<struct<a: array<int>>>", "v[1].a[1]: expected int, found string 'x'"),
        ('{"a": 1, "a": null}', "struct<a: int>", "v.a: is there twice"),
        ('1, "v": 1', "int", "v: is there twice"),
        ('1, "\\u0076": 1', "int", "v: is there twice"),
        ('"a\\u0000b"', "string", "v: text holds U+0000, which PostgreSQL cannot store"),
        ('[{"a": "\\u0000"}]', "array<struct<a: string>>", "v[0].a: text holds U+0000, which PostgreSQL cannot store"),
    ],
)
def test_a_reason_names_the_path_of_the_field(text, kind, expected):
    assert field_reason(text, kind) == expected


@pytest.mark.parametrize(
    "number", ["NaN", "-NaN", "Infinity", "-Infinity", "Inf", "1e999", "01", "1.", ".5", "+1", "-"]
)
@pytest.mark.parametrize("field", ["v", "undeclared"])
def test_numbers_that_json_does_not_have_are_rejected_in_any_field(number, field):
    assert reason(f'{{"{field}": {number}}}'.encode(), v="double").startswith("not valid JSON")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (None, "value is null: a tombstone"),
        (b"", "value is empty"),
        (b" \n", "not valid JSON"),
        (b"null", "expected a JSON object, found null"),
        (b"[{}]", "expected a JSON object, found an array"),
        (b'"{}"', "expected a JSON object, found string '{}'"),
        (b"{}{}", "not valid JSON"),
        (b"{},{}", "not valid JSON"),
        (b"{}\0", "not valid JSON"),
        (b"\xef\xbb\xbf{}", "not valid JSON"),
        (b'{"v": 1,}', "not valid JSON"),
        (b'{"w": "\xff"}', "not valid JSON"),
        (b'{"\xff": 1}', "not valid JSON"),
        (b'{"w": "\\ud800"}', "not valid JSON"),
        (b'{"w": "a\nb"}', "not valid JSON"),
        (b'{"w": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}", "not valid JSON: depth limit exceeded"),
        (b'{"w": ' * 1_000_000, "not valid JSON: depth limit exceeded"),
    ],
)
def test_only_one_json_object_is_a_record(record, expected):
    assert reason(record, v="int").startswith(expected)


def test_nesting_within_the_limit_is_decoded_and_judged():
    deep = b"[" * 1020 + b"]" * 1020
    decoded = decode([b'{"v": 1, "w": %s}' % deep, b'{"v": "x", "w": %s}' % deep], v="int")
    assert decoded.table.to_pylist() == [{"v": 1}]
    assert list(decoded.rejected) == [1]
