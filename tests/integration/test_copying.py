"""Rows that a table refuses are found without trying each row, and each has the reason that the table itself gives."""

from contextlib import closing
from decimal import Decimal

import adbc_driver_postgresql.dbapi as adbc
import psycopg2
import pyarrow as pa
import pytest
from psycopg2.extensions import parse_dsn

from tideline.ledger.session_settings import conninfo
from tideline.sinks.postgres import copying
from tideline.sinks.postgres.copying import Copier

TABLE = """\
CREATE UNLOGGED TABLE tideline_staging.aside (
    id bigint NOT NULL,
    name varchar(9),
    price numeric(12, 4) CHECK (price < 1000),
    divisor integer CHECK (1 / divisor > 0),
    "odd ""name %{x}" integer CONSTRAINT "b %{x}" CHECK ("odd ""name %{x}" <> 3),
    later integer CONSTRAINT "a first" CHECK (later <> 5)
)"""
NOT_NULL = 'RefusedError: null value in column "id" of relation "output" violates not-null constraint'


def law(name):
    return f'RefusedError: new row for relation "output" violates check constraint "{name}"'


def rows(*changes, count=100):
    """Return good rows, the first of which have other values."""
    good = {"id": 1, "name": "x", "price": Decimal(1), "divisor": 1, 'odd "name %{x}': 1, "later": 1}
    types = [pa.int64(), pa.string(), pa.decimal128(12, 4), pa.int32(), pa.int32(), pa.int32()]
    changed = [good | change for change in changes] + [good] * (count - len(changes))
    return pa.table({name: pa.array([row[name] for row in changed], of) for name, of in zip(good, types, strict=True)})


@pytest.fixture
def table(ledger_url):
    """Run a statement in another session than the copier's, and return its rows."""
    with closing(psycopg2.connect(ledger_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True

        def run(statement):
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else None

        run(TABLE)
        yield run


@pytest.fixture
def copies(monkeypatch):
    """Count how often rows were sent to the server."""
    seen = []
    ingest = adbc.Cursor.adbc_ingest

    def counted(cursor, table_name, data, *arguments, **options):
        seen.append(len(data))
        return ingest(cursor, table_name, data, *arguments, **options)

    monkeypatch.setattr(adbc.Cursor, "adbc_ingest", counted)
    return seen


def copied(url, *tables):
    with Copier(url, "aside", "output") as copier:
        return [copier.copy(one) for one in tables]


def test_all_rows_that_break_a_law_are_found_at_once_and_the_table_says_why(ledger_url, table, copies):
    bad = [{"price": Decimal(5000)}, {"id": None}, {"later": 5}, {'odd "name %{x}': 3}] * 50
    [(n_staged, refused)] = copied(ledger_url, rows(*bad, count=1000))
    reasons = [law("aside_price_check"), NOT_NULL, law("a first"), law("b %{x}")]
    assert refused == {n: reasons[n % 4].replace("aside", "output") for n in range(200)}
    assert n_staged == 800
    assert table("SELECT count(*)::int FROM tideline_staging.aside") == [(800,)]
    assert len(copies) == 2 + len(reasons)  # together, without constraints, one row per message


def test_a_row_that_breaks_several_constraints_has_the_reason_of_the_first(ledger_url, table):
    all_of_them = {"id": None, "price": Decimal(5000), 'odd "name %{x}': 3, "later": 5}
    one_less = [dict(list(all_of_them.items())[n:]) for n in range(4)]
    alone = [copied(ledger_url, rows(one, count=1))[0][1][0] for one in one_less]
    [(_, together)] = copied(ledger_url, rows(*one_less))
    assert list(together.values()) == alone
    assert alone == [NOT_NULL, law("a first"), law("a first"), law("a first")]


@pytest.mark.parametrize("fault", [{"divisor": 0}, {"name": "x" * 10}], ids=["a check that raises", "a value too long"])
def test_a_fault_that_is_no_law_costs_its_own_row_only(ledger_url, table, fault):
    bad = [{"price": Decimal(5000)}, fault, {"id": None}, {}, fault, {"later": 5}]
    words = "division by zero" if "divisor" in fault else "column name: value too long for type character varying(9)"
    expected = {
        0: law("output_price_check"), 1: f"RefusedError: {words}", 2: NOT_NULL, 4: f"RefusedError: {words}", 5: law("a first"),
    }  # fmt: skip
    assert copied(ledger_url, rows(*bad), rows(*bad)) == [(95, expected)] * 2
    assert table("SELECT count(*)::int FROM tideline_staging.aside") == [(190,)]


def test_good_rows_behind_bad_ones_are_copied_at_once_again(ledger_url, table, copies):
    copied(ledger_url, rows({"id": None}), rows(), rows())
    assert copies == [100, 100, 1, 100, 100]  # refused, sifted, one for the message; sifted in vain; unsifted


def test_a_law_that_is_null_holds(ledger_url, table):
    nothing = {"name": None, "price": None, "divisor": None, 'odd "name %{x}': None, "later": None}
    assert copied(ledger_url, rows(nothing, {"id": None})) == [(99, {1: NOT_NULL})]


def test_trouble_of_the_server_while_rows_are_sifted_blames_no_row(ledger_url, table, monkeypatch):
    monkeypatch.setattr(copying, "_SIEVE", "nowhere")
    with pytest.raises(adbc.Error):
        copied(ledger_url, rows({"id": None}))


def test_a_role_that_may_not_make_temporary_tables_finds_the_same_rows(ledger_url, table):
    role = f"stager_{ledger_url.rsplit('_', 1)[1]}"
    database = table("SELECT current_database()")[0][0]
    table(f"REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC; CREATE ROLE {role}")
    table(f"GRANT USAGE ON SCHEMA tideline_staging TO {role}; GRANT INSERT, SELECT ON tideline_staging.aside TO {role}")
    try:
        with Copier(ledger_url, "aside", "output") as copier:
            with copier.connection.cursor() as cursor:
                cursor.execute(f"SET ROLE {role}")
            assert copier.copy(rows({"id": None}, {}, {"later": 5})) == (98, {0: NOT_NULL, 2: law("a first")})
    finally:
        table(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_task_has_the_ledgers_settings_on_its_connection(ledger_url):
    """Without them a half-open link hangs for two hours, while the driver's heartbeats keep the claim."""
    asked = ("lock_timeout", "idle_in_transaction_session_timeout", "client_connection_check_interval", "TimeZone")
    columns = ", ".join(f"current_setting('{name}')" for name in asked)
    with Copier(ledger_url, "aside", "output") as copier, copier.connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns}")
        assert cursor.fetchall() == [("30s", "1min", "5s", "UTC")]
    of_link = parse_dsn(conninfo(ledger_url))
    silent = int(of_link["keepalives_idle"]) + int(of_link["keepalives_interval"]) * int(of_link["keepalives_count"])
    assert (of_link["keepalives"], silent) == ("1", 25)
    assert (of_link["tcp_user_timeout"], of_link["connect_timeout"]) == ("30000", "10")
    assert parse_dsn(ledger_url).items() <= of_link.items()
