"""`tideline validate` without servers: each mistake is named with its place, and what was not checked is never fine."""

import json

import pytest
from typer.testing import CliRunner

import tideline.cli  # noqa: F401 - declares the commands
from author_pipelines import COORDINATES, DECLARATION, KEY, TABLE, author
from tideline.cli.app import app
from tideline.settings import PROJECT

FINE = "def records(batch):\n    return batch\n"
WITH_FRAME = "def frame(df):\n    return df\n"


@pytest.fixture
def validate(tmp_path, monkeypatch):
    """Return a function that runs the command over the pipelines of the test, and returns its findings."""
    monkeypatch.setenv("TIDELINE_PIPELINES", str(tmp_path))
    monkeypatch.delenv("TIDELINE_LEDGER_URL", raising=False)

    def run(*arguments, code=0):
        done = CliRunner().invoke(app, ["validate", *arguments, "--json"])
        assert done.exit_code == code, done.output
        said = json.loads(done.stdout)
        assert said["ok"] == (code == 0)
        found = [(one["verdict"], one["where"].removeprefix(f"{tmp_path}/"), one["found"]) for one in said["findings"]]
        assert said["counts"] == {
            verdict: sum(one[0] == verdict for one in found) for verdict in ("ok", "warn", "not checked", "bad")
        }
        return found

    return run


def mistakes(found):
    return [(where, text) for verdict, where, text in found if verdict == "bad"]


def test_the_shipped_pipelines_have_no_mistakes(monkeypatch):
    monkeypatch.setenv("TIDELINE_PIPELINES", str(PROJECT / "include" / "pipelines"))
    done = CliRunner().invoke(app, ["validate"])
    assert (done.exit_code, done.stdout.splitlines()[-1][-5:]) == (0, "0 bad")
    assert ", 0 warn, " in done.stdout.splitlines()[-1]


def test_a_right_pipeline_is_fine_in_each_file(tmp_path, validate):
    author(tmp_path / "orders", transform=FINE)
    assert validate() == [
        ("ok", "orders/pipeline.yaml", "has no mistakes"),
        ("ok", "orders/transform.py", "`records` makes the columns order_id, amount"),
        ("ok", "orders/target.sql", "creates shop.orders, and what the transform returns fits it"),
    ]


def test_all_mistakes_of_all_files_and_pipelines_are_found_in_one_run(tmp_path, validate):
    author(
        tmp_path / "broken",
        declaration=DECLARATION.replace("json", "yson").replace("shop.orders", "orders"),
        transform="import nothing_like_this\n",
    )
    author(tmp_path / "orders", transform="def records(batch):\n    return batch['order_id']\n", target=f"{TABLE},)")
    assert mistakes(validate(code=20)) == [
        (
            "broken/pipeline.yaml:7",
            'source.value.format: expected one of json, text, bytes, avro, protobuf, debezium, found "yson"',
        ),
        ("broken/pipeline.yaml:10", 'sink.table: expected schema.table in lower case, found "orders"'),
        ("broken/transform.py:1", "cannot be imported: ModuleNotFoundError: No module named 'nothing_like_this'"),
        (
            "orders/transform.py",
            "`records` must return a pyarrow.Table with the column `kafka` unchanged, found ChunkedArray",
        ),
        ("orders/target.sql", "line 1: expected no comma before a parenthesis that closes"),
    ]


AVRO = DECLARATION.replace("format: json", "format: avro, schema_file: order.avsc").replace(
    "        format: avro, schema_file: order.avsc\n", "        format: avro\n        schema_file: order.avsc\n"
)
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "order_id", "type": "string"}]}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (
            None,
            "no schema for these columns: expected an Avro schema, as order.avsc is declared, found No such file or directory",
        ),
        ("{", "no schema for these columns: expected an Avro schema in JSON: "),
        (json.dumps(SCHEMA), "no schema for these columns: order_id: expected bigint, the schema has string"),
    ],
)
def test_a_schema_file_that_does_not_fit_is_a_mistake_of_that_file(tmp_path, validate, content, found):
    folder = author(tmp_path / "orders", declaration=AVRO)
    if content is not None:
        (folder / "order.avsc").write_text(content)
    [(where, said)] = mistakes(validate(code=20))
    assert (where, said.startswith(found)) == ("orders/order.avsc", True)


def test_one_pipeline_can_be_chosen(tmp_path, validate):
    author(tmp_path / "broken", declaration="{}")
    author(tmp_path / "orders")
    assert mistakes(validate("orders")) == []
    assert len(mistakes(validate("broken", code=20))) == 3


def test_a_name_without_a_folder_is_a_mistake(tmp_path, validate):
    author(tmp_path / "orders")
    done = CliRunner().invoke(app, ["validate", "order"])
    assert "expected a folder for pipeline 'order', found only: orders" in str(done.exception)


@pytest.mark.parametrize(
    ("transform", "where", "found"),
    [
        ("def records(batch)\n", "transform.py:1", "cannot be imported: SyntaxError: expected ':'"),
        ("\n\n1 / 0\n", "transform.py:3", "cannot be imported: ZeroDivisionError: division by zero"),
        ("def record(batch): ...\n", "transform.py", "expected a function `records` or `frame`, found neither"),
        ("frame = 5\n", "transform.py", "expected a function `frame`, found int"),
        (
            "def records(batch):\n    return batch['prize']\n",
            "transform.py:2",
            "`records` raised on a table without rows: KeyError: 'Field \"prize\" does not exist in schema'",
        ),
    ],
)
def test_a_mistake_in_the_transform_is_named_with_its_line(tmp_path, validate, transform, where, found):
    author(tmp_path / "orders", transform=transform)
    [(place, text)] = mistakes(validate(code=20))
    assert (place, text.replace(" (transform.py, line 1)", "")) == (f"orders/{where}", found)


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("", "expected a statement that creates shop.orders (sink.table), found none"),
        (
            TABLE.replace("shop.orders", "shop.order"),
            "expected a statement that creates shop.orders (sink.table), found shop.order",
        ),
        (
            TABLE.replace("shop.orders", "orders"),
            "expected a statement that creates shop.orders (sink.table), found orders",
        ),
        (TABLE.replace("amount", "price"), "amount: missing in the table"),
        (TABLE.replace("numeric(12, 2)", "text"), "amount text: cannot hold Arrow type decimal128(12, 2)"),
        (TABLE.replace("numeric(12, 2)", "money"), "amount money: type money is not supported; its digits depend on"),
        (TABLE.replace("numeric(12, 2)", "nummeric"), "amount nummeric: type nummeric is not supported"),
        (TABLE.replace("numeric(12, 2)", "string"), "amount string: type string is not supported"),
        (TABLE.replace("order_id bigint", "order_id double"), "order_id double: type double is not supported"),
        (TABLE.replace("amount", "paid boolean NOT NULL, amount"), "paid: NOT NULL, but not produced"),
        (TABLE.replace("kafka_offset bigint, ", ""), "kafka_offset: missing in the table"),
        (TABLE.replace(KEY, "CHECK (order_id > 0)"), "no primary or unique key on exactly (kafka_topic_id, "),
        (TABLE.replace("kafka_offset)", "order_id)"), "no primary or unique key on exactly (kafka_topic_id, "),
        (
            f"{TABLE} CREATE INDEX CONCURRENTLY ON shop.orders (amount)",
            "line 1: expected statements that may run in a ",
        ),
    ],
)
def test_a_mistake_in_the_tables_definition_is_found_without_a_database(tmp_path, validate, target, found):
    author(tmp_path / "orders", target=target)
    [(where, text)] = mistakes(validate(code=20))
    assert where == "orders/target.sql"
    assert text.startswith(found)


COLUMNS = f"order_id bigint, amount numeric, {COORDINATES}"
DEFINITIONS = {
    "partitioned": f"""
        CREATE TABLE shop.orders (day date DEFAULT now(), {COLUMNS},
            PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset, day)) PARTITION BY RANGE (day);
        CREATE TABLE shop.orders_old PARTITION OF shop.orders FOR VALUES FROM (MINVALUE) TO ('2026-01-01');""",
    "unique index": f"""
        CREATE TABLE IF NOT EXISTS SHOP.Orders ({COLUMNS});
        CREATE UNIQUE INDEX ON shop.orders (kafka_offset, kafka_topic_id, kafka_partition) INCLUDE (amount);""",
    "search path": f"""
        SET search_path = shop;
        CREATE TABLE orders ({COLUMNS}, CONSTRAINT one UNIQUE (kafka_topic_id, kafka_partition, kafka_offset));""",
    "quoted": f"""
        CREATE TABLE "shop"."orders" (n /* counts */ pg_catalog.int8 NOT NULL DEFAULT 1, -- of the day
            double smallserial, at timestamptz NOT NULL DEFAULT now(), {COLUMNS}, {KEY});
        COMMENT ON TABLE shop.orders IS 'a; b'; -- the end; GRANT SELECT ON shop.orders TO reader;""",
}


OWN_TYPES = """
    CREATE TYPE shop.state AS ENUM ('open', 'paid');
    CREATE DOMAIN shop.money AS numeric(12, 2) NOT NULL CHECK (VALUE >= 0);
    CREATE DOMAIN shop."price" shop.money;
"""


@pytest.mark.parametrize(
    ("amount", "found"),
    [
        ("shop.money", None),
        ("price", None),
        ("shop.state", "amount enum: cannot hold Arrow type decimal128(12, 2)"),
        ("numeric(12, 2), other shop.price", "other: NOT NULL, but not produced"),
    ],
)
def test_types_that_the_file_creates_are_known(tmp_path, validate, amount, found):
    table = TABLE.replace("numeric(12, 2)", amount)
    author(tmp_path / "orders", target=f"{OWN_TYPES} {table}")
    assert [text for _, text in mistakes(validate(code=20 if found else 0))] == ([found] if found else [])


@pytest.mark.parametrize("form", DEFINITIONS)
def test_definitions_of_other_forms_are_understood(tmp_path, validate, form):
    author(tmp_path / "orders", target=DEFINITIONS[form])
    assert validate()[-1] == ("ok", "orders/target.sql", "creates shop.orders, and what the transform returns fits it")


@pytest.mark.parametrize(
    ("target", "not_understood", "why"),
    [
        (TABLE.replace("(12, 2)", "(12, 2) STORAGE MAIN"), "line 1, near 'STORAGE'", "on line 1 is not understood"),
        (f"{TABLE}\nALTER TABLE shop.orders SET (fillfactor = 70), ADD n int", None, "line 2 changes it"),
        (f"CREATE TABLE shop.orders (LIKE shop.template INCLUDING ALL, {KEY})", None, "line 1 takes its columns from"),
        (f"CREATE TABLE shop.orders ({COLUMNS}, {KEY}) INHERITS (shop.base)", None, "line 1 takes its columns from"),
    ],
)
def test_what_the_parser_cannot_judge_is_not_checked_and_no_mistake(tmp_path, validate, target, not_understood, why):
    author(tmp_path / "orders", target=target)
    found = [one for one in validate() if one[1] == "orders/target.sql"]
    warned = [text for verdict, _, text in found if verdict == "warn"]
    assert len(warned) == (not_understood is not None)
    assert all(text.startswith(f"not understood: {not_understood}") for text in warned)
    assert found[-1][0] == "not checked"
    assert why in found[-1][2]


def test_statements_that_do_not_concern_the_columns_leave_them_checked(tmp_path, validate):
    more = (
        "ALTER TABLE shop.orders OWNER TO shop; CREATE EXTENSION IF NOT EXISTS btree_gist;"
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;"
    )
    author(tmp_path / "orders", target=f"{TABLE} {more}")
    found = validate()
    assert [verdict for verdict, *_ in found] == ["ok", "ok", "warn", "warn", "warn", "ok"]


def test_what_a_frame_returns_is_not_checked(tmp_path, validate):
    author(tmp_path / "orders", transform=WITH_FRAME)
    assert [found[:2] for found in validate()] == [
        ("ok", "orders/pipeline.yaml"),
        ("ok", "orders/transform.py"),
        ("not checked", "orders/transform.py"),
        ("not checked", "orders/target.sql"),
    ]
    author(tmp_path / "bills", transform=WITH_FRAME, target=TABLE.replace(KEY, "CHECK (true)"))
    assert ("bills/target.sql", True) in [(where, "no primary" in text) for where, text in mistakes(validate(code=20))]


def test_a_transform_that_needs_a_spark_session_is_not_checked(tmp_path, validate):
    author(tmp_path / "orders", transform=f"from pyspark.sql import functions as F\nONE = F.lit(1)\n{WITH_FRAME}")
    assert "needs a Spark session" in validate()[1][2]


def test_a_table_of_two_pipelines_is_a_mistake_unless_both_share_it(tmp_path, validate):
    author(tmp_path / "orders")
    author(tmp_path / "returns", declaration=f"{DECLARATION}      shared: true\n")
    [(where, text), (other, _)] = mistakes(validate(code=20))
    assert (where, other) == ("orders/pipeline.yaml", "returns/pipeline.yaml")
    assert text.endswith("declare another table, or sink.shared: true in orders")
    assert len(mistakes(validate("orders", code=20))) == 1


def test_a_definition_in_another_encoding_is_a_mistake(tmp_path, validate):
    author(tmp_path / "orders")
    (tmp_path / "orders" / "target.sql").write_bytes("-- für\n".encode("latin-1"))
    assert mistakes(validate(code=20)) == [("orders/target.sql", "expected UTF-8, found byte 0xfc at 4")]


def test_what_a_transform_prints_is_not_in_the_result(tmp_path, validate):
    author(tmp_path / "orders", transform=f"print('here I am')\n{FINE}")
    assert mistakes(validate()) == []
