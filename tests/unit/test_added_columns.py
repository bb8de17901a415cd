"""A column that a batch adds holds every value that the transform returns for it, and nothing is added unless it is declared."""

import re

import pyarrow as pa
import pytest

from given_ledger.planners import declared
from tideline import settings
from tideline.declaration import PostgresSink
from tideline.domain.columns import parse_type
from tideline.formats.arrow_types import arrow_type
from tideline.sinks.delta import added_columns
from tideline.sinks.postgres import fitting
from tideline.sinks.postgres.column_types import Column, added, misfit
from tideline.sinks.postgres.fitting import Described

KEY = ("kafka_topic_id", "kafka_partition", "kafka_offset")
TYPES = ("uuid", "integer", "bigint", "bigint")
COORDINATES = {
    name: Column(name=name, type_name=kind, precision=None, scale=None, required=False)
    for name, kind in zip(fitting.COORDINATES, TYPES, strict=True)
}
TABLE = Described(columns=COORDINATES, keys=[KEY])
ADDED = {
    "boolean": "boolean",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "timestamp": "timestamp with time zone",
    "date": "date",
    "decimal(12,4)": "numeric(12, 4)",
    "decimal(38,38)": "numeric(38, 38)",
    "array<int>": "integer[]",
    "array<float>": "real[]",
    "array<string>": "text[]",
    "array<timestamp>": "timestamp with time zone[]",
    "array<decimal(5,2)>": "jsonb",
    "array<array<int>>": "jsonb",
    "array<struct<a: int>>": "jsonb",
    "struct<a: int, b: array<string>>": "jsonb",
}
MORE = {
    pa.int8(): "smallint",
    pa.uint8(): "smallint",
    pa.uint16(): "integer",
    pa.uint32(): "bigint",
    pa.large_string(): "text",
    pa.binary(): "bytea",
    pa.large_binary(): "bytea",
    pa.binary(16): "bytea",
    pa.timestamp("ms", tz="Europe/Madrid"): "timestamp with time zone",
    pa.timestamp("ns"): "timestamp without time zone",
    pa.time64("us"): "time without time zone",
    pa.month_day_nano_interval(): "interval",
    pa.date64(): "date",
    pa.list_(pa.int8()): "smallint[]",
    pa.list_(pa.binary()): "jsonb",
    pa.uint64(): None,
    pa.decimal128(5, -2): None,
    pa.decimal256(50, 2): None,
    pa.duration("s"): None,
    pa.null(): None,
}


def sink(**more):
    made = declared("nowhere:9092", "ads")
    return made.model_copy(update={"sink": PostgresSink(table="ads.output", **more)})


@pytest.mark.parametrize(
    ("kind", "expected"), [*((arrow_type(parse_type(name)), made) for name, made in ADDED.items()), *MORE.items()]
)
def test_an_added_column_holds_the_values_that_it_is_added_for(kind, expected):
    column = added("x", kind)
    assert (column.sql_type if column else None) == expected
    if column:
        assert misfit(kind, column) is None
        assert not column.required
        assert not column.not_null


def test_the_types_in_the_docs_are_those_that_are_added():
    text = (settings.PROJECT / "docs" / "pipelines.md").read_text()
    section = text.partition("### New columns")[2].partition("### ")[0]
    rows = dict(re.findall(r"^\| (.*?) \| (.*?) \|$", section, re.MULTILINE))
    for names, expected in ((row, rows[row]) for row in rows if row.startswith("`") and "array" not in row):
        for name in re.findall(r"`(\w+)`", names):
            if name in ADDED:
                assert ADDED[name] == name if expected == "the same" else f"`{ADDED[name]}`" in expected, name


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"type_name": "timestamp with time zone", "digits": 3}, "timestamp(3) with time zone"),
        ({"type_name": "time without time zone", "digits": 0}, "time(0) without time zone"),
        ({"type_name": "character varying", "length": 20}, "character varying(20)"),
        ({"type_name": "numeric", "precision": 12, "scale": 0}, "numeric(12, 0)"),
        ({"type_name": "numeric"}, "numeric"),
        ({"type_name": "double precision"}, "double precision"),
    ],
)
def test_types_are_said_as_sql_has_them(more, said):
    given = {"precision": None, "scale": None, **more}
    assert Column(name="x", required=False, **given).sql_type == said


PRODUCED = pa.schema([("id", pa.int64()), ("more", pa.string()), ("kafka", pa.int64())])


def test_nothing_is_added_unless_it_is_declared():
    assert fitting.lacking(TABLE, PRODUCED, sink()) == ()
    assert fitting.problems(TABLE, PRODUCED, sink().sink) == ["id: missing in the table", "more: missing in the table"]
    lacks = fitting.lacking(TABLE, PRODUCED, sink(evolve="add"))
    assert fitting.listed(lacks) == "id bigint, more text"
    assert fitting.problems(TABLE, PRODUCED, sink().sink, lacks) == []


def test_a_text_that_is_declared_as_json_becomes_a_document():
    made = sink(evolve="add")
    value = made.source.value.model_copy(update={"columns": {"id": "bigint", "more": " JSON "}})
    made = made.model_copy(update={"source": made.source.model_copy(update={"value": value})})
    assert fitting.listed(fitting.lacking(TABLE, PRODUCED, made)) == "id bigint, more jsonb"


def test_a_type_that_no_column_surely_holds_is_not_added():
    produced = pa.schema([("n", pa.uint64()), ("twice", pa.int64()), ("twice", pa.int64())])
    lacks = fitting.lacking(TABLE, produced, sink(evolve="add"))
    assert fitting.problems(TABLE, produced, sink().sink, lacks) == ["twice: produced twice", "n: missing in the table"]


def test_names_that_the_sink_fills_are_never_added():
    produced = pa.schema([("tideline_row", pa.int64()), ("kafka_offset", pa.int64())])
    assert fitting.lacking(TABLE, produced, sink(evolve="add")) == ()


def test_columns_that_find_the_newest_record_of_a_key_have_to_be_there_before():
    made = sink(evolve="add", mode="upsert", key=["id"], order=["rank"])
    produced = pa.schema([("id", pa.int64()), ("rank", pa.int64())])
    lacks = fitting.lacking(TABLE, produced, made)
    found = fitting.problems(TABLE, produced, made.sink, lacks)
    assert "no primary or unique key on exactly (id), the columns of sink.key" in found
    assert "rank: must be NOT NULL, so that the newest record of a key can be found" in found


def test_a_role_that_does_not_own_the_table_is_refused_before_anything_is_read():
    table = Described(columns=COORDINATES, keys=[KEY], is_owned=False)
    lacks = fitting.lacking(table, PRODUCED, sink(evolve="add"))
    [problem] = fitting.problems(table, PRODUCED, sink().sink, lacks)
    assert problem.startswith("id, more: missing in the table, and only the role that owns it may add columns")
    assert fitting.problems(table, pa.schema([]), sink().sink) == []


def test_delta_has_no_two_columns_that_differ_in_case():
    there, produced = pa.schema([("Id", pa.int64())]), pa.schema([("id", pa.int64()), ("more", pa.int64())])
    assert added_columns.lacking(there, produced).names == ["more"]
