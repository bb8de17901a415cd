"""`tideline validate --database` compares the real tables as a load does, and leaves nothing behind."""

import json

import pytest

from author_pipelines import COORDINATES, KEY, TABLE, author
from given_ledger.ledgers import execute, query
from servers.cli_process import reader_of

ORDERS = "table shop.orders"


@pytest.fixture
def validate(cli):
    """Return a function that runs the command over one pipeline, and returns what it says of its table."""

    def run(*, code=0, **files):
        author(cli.folder / "orders", **files)
        said = json.loads(cli("validate", "orders", "--database", "--json", code=code).stdout)
        return [(one["verdict"], one["found"]) for one in said["findings"] if one["where"] == ORDERS]

    return run


def tables(ledger):
    return query(ledger, "SELECT to_regclass('shop.orders')::text, to_regnamespace('shop')::text")


def test_a_table_that_fits_is_fine(validate, ledger):
    execute(ledger, f"CREATE SCHEMA shop; {TABLE}")
    assert validate() == [("ok", "exists; what the transform returns fits")]


def test_a_table_that_was_altered_does_not_fit_although_the_file_does(validate, ledger):
    execute(ledger, f"CREATE SCHEMA shop; {TABLE} ALTER TABLE shop.orders ADD day date NOT NULL, DROP amount")
    assert validate(code=20) == [
        ("bad", "amount: missing in the table"),
        ("bad", "day: NOT NULL, but not produced"),
    ]


def test_a_table_that_does_not_exist_is_tried_and_not_kept(validate, ledger):
    found = validate(target=f"CREATE SCHEMA shop; {TABLE}")
    assert found == [
        ("ok", "does not exist: the first batch creates it from target.sql; what the transform returns fits")
    ]
    assert tables(ledger) == [(None, None)]


def test_what_only_postgres_understands_is_checked_by_it(validate, ledger):
    target = f"CREATE SCHEMA shop; CREATE TABLE shop.orders (order_id bigint, amount text STORAGE MAIN, {COORDINATES}, {KEY})"
    assert validate(target=target, code=20) == [("bad", "amount text: cannot hold Arrow type decimal128(12, 2)")]
    assert tables(ledger) == [(None, None)]


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (f"-- Owned by tideline.\n{TABLE}", 'target.sql fails: schema "shop" does not exist'),
        ("CREATE TABLE shop.orders (x int NOT NUL)", 'target.sql fails: syntax error at or near "NUL"'),
        ("CREATE SCHEMA shop; DO $$ BEGIN END $$; -- CREATE TABLE shop.orders", "runs and creates no such table"),
        (f"CREATE SCHEMA shop; {TABLE} COMMIT;", "EXECUTE of transaction commands is not implemented"),
    ],
)
def test_a_definition_that_fails_is_a_mistake_and_leaves_nothing(validate, ledger, target, found):
    [(verdict, text)] = validate(target=target, code=20)
    assert (verdict, found in text) == ("bad", True), text
    assert tables(ledger) == [(None, None)]


def test_a_role_that_may_not_create_the_table_has_not_checked_it(validate, cli, ledger_url):
    with reader_of(ledger_url) as reader:
        cli.variables["TIDELINE_LEDGER_URL"] = reader
        [(verdict, text)] = validate(target=f"CREATE SCHEMA shop; {TABLE}")
    assert (verdict, "this role may not try that: permission denied" in text) == ("not checked", True), text


def test_a_database_that_does_not_answer_is_no_mistake_of_the_pipeline(cli):
    author(cli.folder / "orders")
    cli.variables["TIDELINE_LEDGER_URL"] = "postgresql://127.0.0.1:1/nowhere"
    assert "cannot be reached" in cli("validate", "--database", code=10).stderr
