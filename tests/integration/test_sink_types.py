"""Every supported column type keeps its values, and a value that does not fit is a reject with a reason."""

import json
import re
import uuid
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from hashlib import shake_128

import psycopg2
import pytest

import records
from test_sink import target

# declared type, column of the table, values as JSON and as the warehouse shows them
FITTING = [
    ("boolean", "boolean", [True, False]),
    ("smallint", "smallint", [-(2**15), 2**15 - 1]),
    ("bigint", "smallint", [1, -1]),
    ("int", "integer", [-(2**31), 2**31 - 1]),
    ("bigint", "bigint", [-(2**63), 2**63 - 1]),
    ("float", "real", [0.5, -1.25]),
    ("float", "double precision", [0.5, -1.25]),
    ("double", "double precision", [1e300, -0.1]),
    ("double", "real", [0.5, 3.25]),
    ("decimal(12,4)", "numeric(12,4)", [Decimal("12345678.1234"), Decimal("-0.0001")]),
    ("decimal(12,4)", "numeric(6,1)", [Decimal("12345.5000"), Decimal(0)]),
    ("decimal(38,10)", "numeric", [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001")]),
    ("decimal(38,0)", "numeric(38,0)", [Decimal("9" * 38), Decimal("-" + "9" * 38)]),
    ("decimal(4,2)", "numeric(50,20)", [Decimal("12.34"), Decimal("-99.99")]),
    ("decimal(38,0)", "numeric(76,38)", [Decimal("9" * 38), Decimal(2**120)]),
    ("bigint", "numeric(38,30)", [12345678, -1]),
    ("bigint", "numeric", [2**63 - 1, -(2**63)]),
    ("bigint", "numeric(20,2)", [2**53, 0]),
    ("string", "text", ["", 'ünïcode 😀\n\t\\ "quoted"']),
    ("string", "varchar(3)", ["abc", "üöä"]),
    ("string", "varchar(3)", ["a  ", "ü  "]),
    ("string", "varchar", ["x" * 10_000, ""]),
    ("string", "uuid", [str(uuid.UUID(int=1)), str(uuid.uuid4())]),
    ("string", "json", ['{"a": [1, null]}', '"text"']),
    ("string", "jsonb", ['{"a": [1, null]}', "17"]),
    ("json", "jsonb", [{"a": [1, None], "deep": {"b": ""}}, ""]),
    ("json", "json", [[{}, "x"], 17]),
    ("array<string>", "text[]", [["a", None, 'q"{,}'], []]),
    ("array<boolean>", "boolean[]", [[True, None, False], []]),
    ("array<bigint>", "bigint[]", [[2**63 - 1, None, -(2**63)], []]),
    ("array<int>", "int[]", [[2**31 - 1, None], []]),
    ("array<bigint>", "smallint[]", [[2**15 - 1, None], [1]]),
    ("array<double>", "double precision[]", [[0.5, None, 1e300], []]),
    ("array<float>", "real[]", [[0.5, None], []]),
    ("array<date>", "date[]", [[date(1, 1, 1), None], []]),
    ("array<timestamp>", "timestamptz[]", [[datetime(2026, 1, 1, tzinfo=UTC), None], []]),
    ("array<bigint>", "jsonb", [[1, None], []]),
    ("array<struct<a: int, b: array<string>>>", "jsonb", [[{"a": 1, "b": ["x", None]}, None], []]),
    (
        "struct<a: decimal(38,2), b: struct<c: string>>",
        "jsonb",
        [{"a": Decimal("9.25"), "b": {"c": 'é"'}}, {"a": None, "b": None}],
    ),
    ("struct<a: boolean, b: double>", "json", [{"a": True, "b": 0.5}, {"a": None, "b": None}]),
    ("string", "char(3)", ["abc", "üöä"]),
    ("string", "ads.mood", ["glad", 'sad "x']),
    ("string", "ads.citext", ["Ada", "ada"]),
    ("string", "ads.code", ["AB", "xy"]),
    ("int", "ads.small", [1, 9]),
    ("decimal(12,4)", "ads.price", [Decimal("1.50"), Decimal("-2.25")]),
    ("string", "inet", ["192.168.0.1", "2001:db8::1/64"]),
    ("string", "inet", ["10.1.2.3/8", "::ffff:1.2.3.4/128"]),
    ("string", "cidr", ["10.0.0.0/8", "2001:db8::/32"]),
    ("string", "time", ["00:00:00", "23:59:59.999999"]),
    ("string", "time(1)", ["00:00:00.500000", "23:59:59"]),
    (
        "timestamp",
        "timestamptz(3)",
        [datetime(2026, 1, 1, 0, 0, 0, 1_000, UTC), datetime(1969, 1, 1, 0, 0, 0, 999_000, UTC)],
    ),
    ("string", "interval", ["P1Y2M3DT4H5M6.5S", "-P1W2DT-3M"]),
    ("date", "date", [date(1, 1, 1), date(9999, 12, 31)]),
    (
        "timestamp",
        "timestamptz",
        [datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)],
    ),
    ("timestamp", "timestamptz", [datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC)]),
]


def in_json(value):
    if isinstance(value, dict):
        return {name: in_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [in_json(one) for one in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, date | Decimal) else value


SHOWN = {
    "::ffff:1.2.3.4/128": "::ffff:1.2.3.4",
    "P1Y2M3DT4H5M6.5S": timedelta(days=365 + 2 * 30 + 3, hours=4, minutes=5, seconds=6.5),
    "-P1W2DT-3M": timedelta(days=-9, minutes=3),
}
TYPES = """\
CREATE SCHEMA ads;
-- As the extension defines it, which the Postgres of these tests does not have.
CREATE TYPE ads.citext;
CREATE FUNCTION ads.citextin(cstring) RETURNS ads.citext AS 'textin' LANGUAGE internal IMMUTABLE STRICT;
CREATE FUNCTION ads.citextout(ads.citext) RETURNS cstring AS 'textout' LANGUAGE internal IMMUTABLE STRICT;
CREATE FUNCTION ads.citextrecv(internal) RETURNS ads.citext AS 'textrecv' LANGUAGE internal STABLE STRICT;
CREATE FUNCTION ads.citextsend(ads.citext) RETURNS bytea AS 'textsend' LANGUAGE internal STABLE STRICT;
CREATE TYPE ads.citext (
    INPUT = ads.citextin, OUTPUT = ads.citextout, RECEIVE = ads.citextrecv, SEND = ads.citextsend,
    INTERNALLENGTH = VARIABLE, STORAGE = extended, CATEGORY = 'S'
);
CREATE TYPE ads.mood AS ENUM ('glad', 'sad "x');
CREATE DOMAIN ads.short AS varchar(2) NOT NULL;
CREATE DOMAIN ads.code AS varchar(2) CHECK (VALUE <> 'no');
CREATE DOMAIN ads.digit AS integer CHECK (VALUE < 10);
CREATE DOMAIN ads.small AS ads.digit CHECK (VALUE > 0);
CREATE DOMAIN ads.price AS numeric(12, 2);
"""


def shown(kind, value):
    """Convert JSON text to the value that psycopg2 returns."""
    made = {
        "json": json.loads,
        "jsonb": json.loads,
        "uuid": uuid.UUID,
        "time": time.fromisoformat,
        "time(1)": time.fromisoformat,
    }
    return made.get(kind, lambda same: SHOWN.get(same, same))(value)


def target_with_types(columns):
    return TYPES + target(columns).replace("CREATE SCHEMA ads;", "")


def test_every_type_keeps_its_values_and_nulls(loading):
    """One table with a column for each type."""
    topic = records.create(loading.bootstrap)
    rows = [[case[2][n] for case in FITTING] for n in (0, 1)] + [[None] * len(FITTING)]
    records.produce(
        loading.bootstrap, topic, (json.dumps({f"c{n}": in_json(v) for n, v in enumerate(row)}) for row in rows)
    )
    loading.declare(
        topic,
        columns={f"c{n}": case[0] for n, case in enumerate(FITTING)},
        target=target_with_types(", ".join(f"c{n} {case[1]}" for n, case in enumerate(FITTING))),
    )
    loading.run()
    assert loading.rejects() == {}
    names = ", ".join(f"c{n}" for n in range(len(FITTING)))
    found = loading.rows(f"SELECT {names} FROM ads.output ORDER BY kafka_offset")
    for n, (declared, kind, values) in enumerate(FITTING):
        assert [row[n] for row in found] == [
            *(shown(kind, value) if declared == "string" else value for value in values),
            None,
        ], (declared, kind)


def test_bytes_and_uuids_of_bytes_are_kept(loading):
    topic = records.create(loading.bootstrap)
    values = [bytes(range(256)), b"", uuid.uuid4().bytes]
    records.produce(loading.bootstrap, topic, values)
    text = """\
        import pyarrow as pa

        def records(batch):
            whole = [v if len(v) == 16 else None for v in batch["value"].to_pylist()]
            return batch.append_column("id", pa.array(whole, pa.binary(16)))
        """
    loading.declare(topic, value_format="bytes", transform=text, target=target("value bytea, id uuid"))
    loading.run()
    rows = loading.rows("SELECT value, id::text FROM ads.output ORDER BY kafka_offset")
    assert [bytes(row[0]) for row in rows] == values
    assert [row[1] for row in rows] == [None, None, str(uuid.UUID(bytes=values[2]))]


# declared type, column of the table, a value that does not fit, a word of the reason
UNFIT = [
    ("bigint", "smallint", 2**15, "not in range"),
    ("bigint", "integer", 2**31, "not in range"),
    ("double", "real", 1e300, "too large for real"),
    ("decimal(12,4)", "numeric(6,1)", "123456.0", "numeric field overflow"),
    ("decimal(12,4)", "numeric(6,1)", "1.25", "data loss"),
    ("bigint", "numeric(38,30)", 2**63 - 1, "numeric field overflow"),
    ("bigint", "numeric(3,0)", 1000, "numeric field overflow"),
    ("string", "varchar(3)", "four", "value too long for type character varying(3)"),
    ("string", "varchar(3)", "abc ", "value too long for type character varying(3)"),
    ("string", "uuid", "no uuid", "badly formed"),
    *(
        ("string", "uuid", text, "badly formed")
        for text in (
            "0x345678123456781234567812345678",
            "1234_6781234567812345678123456_78",
            " " + "1" * 31,
            "\uff11" * 32,
        )
    ),
    ("string", "json", "[" * 100_000, "stack depth limit exceeded"),
    ("string", "jsonb", "[" * 100_000, "stack depth limit exceeded"),
    ("string", "json", "{bad", "invalid input syntax for type json"),
    ("string", "jsonb", "{bad", "invalid input syntax for type json"),
    ("string", "jsonb", '{"a": "\\u0000"}', "unsupported Unicode escape sequence"),
    ("array<bigint>", "int[]", [1, 2**31], "not in range"),
    ("string", "char(3)", "four", "value too long for type character(3)"),
    ("string", "ads.mood", "angry", "invalid input value for enum"),
    ("string", "ads.code", "abc", "value too long for type character varying(2)"),
    ("string", "ads.code", "no", "violates check constraint"),
    ("string", "ads.short", None, "does not allow null values"),
    ("int", "ads.small", 10, "violates check constraint"),
    ("int", "ads.small", 0, "violates check constraint"),
    ("decimal(12,4)", "ads.price", "1.255", "data loss"),
    *(
        ("string", "inet", text, "expected an IP address")
        for text in ("", "x.y", "1.2.3.4/255.0.0.0", "fe80::1%eth0", " 1.2.3.4", "1.2.3.4/")
    ),
    ("string", "inet", "1.2.3", "does not appear to be"),
    ("string", "inet", "1.2.3.4/33", "does not appear to be"),
    ("string", "inet", "01.2.3.4", "does not appear to be"),
    ("string", "cidr", "10.0.0.1/8", "bits to the right of its network"),
    *(("string", "time", text, "expected a time") for text in ("24:00", "1:02", "12:00Z", "12:60", "12:00:00.1234567")),
    *(
        ("string", "interval", text, "expected an interval")
        for text in ("", "P", "PT", "P1DT", "1 day", "P1.5D", "PT1S1H", "P1D2M")
    ),
    ("string", "time(1)", "10:00:00.25", "keeps 1 digits of a second"),
    ("timestamp", "timestamptz(3)", "2026-01-01T00:00:00.0001Z", "keeps 3 digits of a second"),
    ("timestamp", "timestamptz(0)", "1969-01-01T00:00:00.5Z", "keeps 0 digits of a second"),
    ("string", "interval", "P178956971Y", "interval out of range"),
    ("bigint", "bigint CHECK (c < 10)", 11, "violates check constraint"),
    ("string", "text NOT NULL", None, "violates not-null constraint"),
]


def good_for(declared, column):
    """Return a value that the column takes."""
    good = {
        "decimal(12,4)": "1.0",
        "bigint": 1,
        "double": 0.5,
        "array<bigint>": [],
        "int": 5,
        "timestamp": "2026-01-01T00:00:00Z",
    }.get(declared)
    of_text = {
        "uuid": str(uuid.UUID(int=7)),
        "json": "{}",
        "jsonb": "{}",
        "inet": "::1",
        "cidr": "10.0.0.0/8",
        "time": "10:00",
        "time(1)": "10:00",
        "interval": "P1D",
        "ads.mood": "glad",
        "ads.code": "ab",
        "ads.short": "ab",
    }
    return of_text.get(column, "abc") if good is None else good


def test_a_value_that_does_not_fit_is_a_reject(loading):
    """Each column has a record of its own, whose other values fit, between two records that are written."""
    topic = records.create(loading.bootstrap)
    good = {f"c{n}": good_for(declared, column) for n, (declared, column, *_) in enumerate(UNFIT)}
    bad = [json.dumps({**good, f"c{n}": value}) for n, (*_, value, _) in enumerate(UNFIT)]
    fine = json.dumps(good)
    records.produce(loading.bootstrap, topic, [fine, *(one for value in bad for one in (value, fine))])
    loading.declare(
        topic,
        columns={f"c{n}": declared for n, (declared, *_) in enumerate(UNFIT)},
        target=target_with_types(
            ", ".join(f"c{n} {column.replace('(c ', f'(c{n} ')}" for n, (_, column, *_) in enumerate(UNFIT))
        ),
        fail_above=1.0,
    )
    loading.run()
    rejects = dict(sorted(loading.rejects().items()))
    assert [*rejects] == [(0, 2 * n + 1) for n in range(len(UNFIT))]
    for n, (step, said, raw) in enumerate(rejects.values()):
        assert (step, raw) == ("store", bad[n].encode())
        assert UNFIT[n][-1] in said, (UNFIT[n], said)
        assert f"column c{n}" in said or f'column "c{n}"' in said or "constraint" in said, said
    n_bad = len(UNFIT)
    counts = {"n_read": 2 * n_bad + 1, "n_written": n_bad + 1, "n_rejected": n_bad, "n_filtered": 0, "n_gap": 0}
    assert loading.counts() == counts


def test_text_with_nul_is_a_reject_of_the_table(loading):
    """JSON decoding rejects it; a transform may still produce one."""
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [b"good", b"a\0b", b"good"])
    text = """\
        def records(batch):
            column = batch["value"].cast("string")
            return batch.set_column(batch.schema.get_field_index("value"), "value", column)
        """
    loading.declare(topic, value_format="bytes", transform=text, target=target("value text"))
    loading.run()
    ((place, (step, said, raw)),) = loading.rejects().items()
    assert (place, step, raw) == ((0, 1), "store", b"a\0b")
    assert 'column value: invalid byte sequence for encoding "UTF8": 0x00' in said


def text_of(size, number):
    """Return text that compression cannot make smaller."""
    return shake_128(str(number).encode()).hexdigest(size)[:size]


def held_by_a_twin(loading, values):
    """Return the numbers of the values that a table with the same indexes accepts, one by one."""
    connection = psycopg2.connect(loading.url)
    connection.autocommit = True
    held = []
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE ads.twin (LIKE ads.output INCLUDING INDEXES)")
        for number, value in enumerate(values):
            with suppress(psycopg2.errors.ProgramLimitExceeded):
                cursor.execute("INSERT INTO ads.twin VALUES (%s, %s, 0, %s, 1)", (value, str(uuid.UUID(int=1)), number))
                held.append(number)
    connection.close()
    return held


@pytest.mark.parametrize(
    "index",
    [
        "INDEX ON ads.output (c)",
        "UNIQUE INDEX ON ads.output (lower(c), kafka_offset) WHERE c <> '100%'",
        "INDEX ON ads.output (kafka_topic_id, kafka_partition, kafka_offset, c)",
        "INDEX ON ads.output (c) WHERE length(c) < 100",
        "INDEX ON ads.output USING hash (c)",
    ],
)
def test_text_that_is_too_long_for_an_index_costs_its_record_only(loading, index):
    topic = records.create(loading.bootstrap)
    sizes = [10, 2600, *range(2640, 2704, 4), 3000, 100_000]
    values = [text_of(size, number) for number, size in enumerate(sizes)] + ["x" * 100_000]
    records.produce(loading.bootstrap, topic, (json.dumps({"c": value}) for value in values))
    loading.declare(topic, columns={"c": "string"}, target=f"{target('c text')} CREATE {index}")
    loading.run()
    found = [row[0] for row in loading.rows("SELECT kafka_offset FROM ads.output ORDER BY kafka_offset")]
    assert found == held_by_a_twin(loading, values)
    rejects = loading.rejects()
    assert {offset for _, offset in rejects} == set(range(len(values))) - set(found)
    assert {step for step, _, _ in rejects.values()} <= {"store"}
    assert all(
        re.search(r"exceeds btree version 4 maximum|index row requires", said) for _, said, _ in rejects.values()
    )
