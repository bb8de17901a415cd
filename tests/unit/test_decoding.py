"""What strict decoding keeps, what it rejects and why."""

import time
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from spark_jobs import json_suspects
from spark_jobs.arrow_types import arrow_type
from spark_jobs.decoding import BLOCK_BYTES, NARROW, _blocks, decoder
from spark_jobs.reasons import MAX_REASON
from tideline.domain.columns import parse_type


def decode(records, value_format="json", **columns):
    decode_values = decoder(value_format, {name: parse_type(kind) for name, kind in columns.items()})
    return decode_values(pa.array(records, pa.binary()))


def value(text, kind):
    """The value of column `v` in `{"v": <text>}`, decoded as `kind`."""
    decoded = decode([b'{"v": %s}' % text.encode()], v=kind)
    assert decoded.rejected == {}
    return decoded.table["v"][0].as_py()


def reason(record, **columns):
    decoded = decode([record], **columns)
    assert decoded.kept.to_pylist() == []
    return decoded.rejected[0]


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


def test_pretty_printed_records_are_single_rows():
    decoded = decode([b'\n{\r\n"v"\n:\t1\n}\n\n', b'{"v":2}', b'{\n"w": {\n}}'], v="int")
    assert decoded.table["v"].to_pylist() == [1, 2, None]


@pytest.mark.parametrize("kind", ["double", "string", "decimal(12,4)", "timestamp", "date", "struct<a: float>"])
def test_a_batch_of_missing_fields_is_a_column_of_nulls(kind):
    decoded = decode([b"{}", b'{"w": "\\u0000"}', b'{"v": null}'], v=kind)
    assert decoded.table["v"].to_pylist() == [None, None, None]


@pytest.mark.parametrize(
    "broken",
    [
        [b'{"o":', b'{"v":1}}', b"{}{}"],
        [b'{"v":1},"x":{}', b'{"v":2}'],
        [b'{"_i":0,"v":1}}{"_i":1,"v":6,"x":', b"{}}"],
        [b'{"v":"', b'"}'],
        [b"{", b"}"],
    ],
)
def test_broken_records_cannot_join_into_rows(broken):
    good = b'{"v":7}'
    decoded = decode([good, *broken, good], v="int")
    kept = decoded.kept.to_pylist()
    assert kept == [
        0,
        *(place for place, record in enumerate([good, *broken]) if record == b'{"v":2}'),
        len(broken) + 1,
    ]
    assert decoded.table["v"].to_pylist()[0] == decoded.table["v"].to_pylist()[-1] == 7


def test_one_bad_record_costs_only_itself_wherever_it_is():
    records = [b'{"v":%d}' % number for number in range(3 * NARROW)]
    for place in (0, NARROW - 1, NARROW, len(records) - 1):
        decoded = decode([*records[:place], b'{"v":"x"}', *records[place + 1 :]], v="int")
        assert decoded.rejected == {place: "v: expected int, found string 'x'"}
        assert decoded.kept.to_pylist() == [*range(place), *range(place + 1, len(records))]
        assert decoded.table["v"].to_pylist() == decoded.kept.to_pylist()


def test_records_larger_than_a_block_together_are_decoded_in_order():
    decoded = decode([b'{"n":%d,"v":"%s"}' % (number, b"x" * 10_000_000) for number in range(5)], n="int", v="string")
    assert decoded.table["n"].to_pylist() == list(range(5))
    assert {len(text) for text in decoded.table["v"].to_pylist()} == {10_000_000}


def test_a_block_is_cut_before_its_text_grows_past_the_limit():
    half = b"x" * (BLOCK_BYTES // 2)
    assert list(_blocks([half, half, half, b"", b"x" * (BLOCK_BYTES + 1), half], {3: "bad"})) == [
        [0],
        [1],
        [2],
        [4],
        [5],
    ]


@pytest.mark.parametrize("bad", [b'{"v":1', b'{"v":"x"}', b'{"v":1.23456}'])
def test_a_batch_of_only_bad_records_takes_linear_time(bad):
    good = [b'{"v":1.2,"pad":"%s"}' % (b"x" * 200)] * 4000

    def seconds(records):
        start = time.process_time()
        decode(records, v="decimal(12,4)")
        return time.process_time() - start

    # Measured at 1 to 5; one call into Arrow for each bad record measured above 80.
    assert min(seconds([bad] * 4000) for _ in range(3)) < 25 * min(seconds(good) for _ in range(3))


@pytest.mark.parametrize("bad", [b'{"v":"' + b"x\\n\\u0000" * 500 + b'"}', b'{"v":' + b"1" * 300 + b"}", b"x" * 5000])
def test_a_reason_is_one_short_line(bad):
    text = reason(bad, v="int")
    assert len(text) <= MAX_REASON
    assert text.isprintable()


def test_text_keeps_empty_values_and_rejects_what_is_no_text():
    decoded = decode([b"a", None, b"", b"\xc3\xa9", b"x\xff", b"a\0b"], "text")
    assert decoded.table.to_pydict() == {"value": ["a", "", "é"]}
    assert decoded.table.schema == pa.schema({"value": pa.string()})
    assert decoded.kept.to_pylist() == [0, 2, 3]
    assert decoded.rejected == {
        1: "value is null: a tombstone holds no value",
        4: "not valid UTF-8: invalid start byte at byte 1",
        5: "text holds U+0000, which PostgreSQL cannot store",
    }


def test_bytes_keep_everything_but_null():
    decoded = decode([b"\xff\0", None, b""], "bytes")
    assert decoded.table.to_pydict() == {"value": [b"\xff\0", b""]}
    assert list(decoded.rejected) == [1]


@pytest.mark.parametrize("value_format", ["json", "text", "bytes"])
def test_chunks_large_offsets_and_empty_batches_are_all_batches(value_format):
    decode_values = decoder(value_format, {"value": parse_type("string")} if value_format == "json" else {})
    record = b'{"value":"a"}'
    whole = decode_values(pa.array([record, None, record], pa.binary()))
    for values in (
        pa.chunked_array([[record], [], [None, record]], pa.binary()),
        pa.array([record, None, record], pa.large_binary()),
        pa.array([None, record, None, record], pa.binary()).slice(1),
    ):
        assert decode_values(values).table == whole.table
        assert decode_values(values).rejected == whole.rejected
    empty = decode_values(pa.array([], pa.binary()))
    assert (empty.table.schema, empty.table.num_rows, len(empty.kept), empty.rejected) == (whole.table.schema, 0, 0, {})


def test_a_table_has_exactly_the_declared_columns_and_types():
    columns = {"b": parse_type("struct<t: timestamp, p: decimal(5,2)>"), "a": parse_type("array<date>")}
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in columns.items()])
    decode_values = decoder("json", columns)
    assert decode_values(pa.array([b'{"z":1,"a":[]}'])).table.schema == schema
    assert decode_values(pa.array([b"bad"])).table.schema == schema
    assert schema.field("b").type == pa.struct({"t": pa.timestamp("us", tz="UTC"), "p": pa.decimal128(5, 2)})


@pytest.mark.parametrize(
    ("value_format", "columns", "problem"),
    [
        ("jsn", {}, "unknown format 'jsn'; known: json, text, bytes"),
        ("json", {}, "needs at least one column"),
        ("text", {"v": parse_type("int")}, "has one column, `value`"),
    ],
)
def test_an_impossible_decoder_is_refused_when_it_is_made(value_format, columns, problem):
    with pytest.raises(ValueError, match=problem):
        decoder(value_format, columns)


def test_bad_records_among_many_do_not_send_the_good_ones_through_the_judge(monkeypatch):
    """One in a hundred of a wrong type once made a load take twice as long."""
    judged = []
    exact = json_suspects.type_fault

    def counting(columns, **options):
        fault = exact(columns, **options)
        return lambda raw: judged.append(raw) or fault(raw)

    monkeypatch.setattr(json_suspects, "type_fault", counting)
    decode = decoder("json", {"a": parse_type("bigint"), "t": parse_type("timestamp")})
    good, bad = b'{"a": 1, "t": "2026-01-01T00:00:00Z"}', b'{"a": "x"}'
    values = pa.array([bad if n % 100 == 0 else good for n in range(5000)], pa.binary())
    for _ in range(2):
        judged.clear()
        assert list(decode(values).rejected) == list(range(0, 5000, 100))
        assert judged == [bad] * 50
