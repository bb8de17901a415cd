"""Many records are decoded at once, with the same result as each alone. Text and bytes are decoded, too."""

import time

import pyarrow as pa
import pytest

from reject_reason import decode, decoder, reason
from tideline.domain.columns import parse_type
from tideline.domain.reject_reasons import MAX_REASON
from tideline.formats import json_prefilter
from tideline.formats.arrow_types import arrow_type
from tideline.formats.json_format import BLOCK_BYTES, NARROW, _blocks


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


def test_bad_records_among_many_are_examined_without_the_good_ones(monkeypatch):
    """One record in a hundred with a wrong type once doubled the time of a load."""
    judged = []
    exact = json_prefilter.type_fault

    def counting(columns, **options):
        fault = exact(columns, **options)
        return lambda raw: judged.append(raw) or fault(raw)

    monkeypatch.setattr(json_prefilter, "type_fault", counting)
    decode = decoder("json", {"a": parse_type("bigint"), "t": parse_type("timestamp")})
    good, bad = b'{"a": 1, "t": "2026-01-01T00:00:00Z"}', b'{"a": "x"}'
    values = pa.array([bad if n % 100 == 0 else good for n in range(5000)], pa.binary())
    for _ in range(2):
        judged.clear()
        assert list(decode(values).rejected) == list(range(0, 5000, 100))
        assert judged == [bad] * 50
