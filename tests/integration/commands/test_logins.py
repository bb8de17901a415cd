"""The local stack gives each kind of process a login of its own, also in databases of an older version, where all was the administrator's."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from uuid import uuid4

import psycopg2
import pytest

from loads import by_hand
from loads.by_hand import Urls
from tideline.deployment import logins
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline.ledger.rights import DUTIES, GRANTED
from tideline.settings import LEDGER_URL, PROJECT, READER_URL, STAGER_URL, WRITER_URL
from tideline_stack.postgres import Postgres

EXAMPLE = PROJECT / "include" / "pipelines" / "impressions"
TABLES = "".join((EXAMPLE / name).read_text(encoding="utf-8") for name in ("offers.sql", "target.sql"))
OLDER = (
    "CREATE TABLE of_a_person AS SELECT 7 AS n; CREATE VIEW seen AS SELECT * FROM of_a_person; CREATE SEQUENCE numbers;"
    "CREATE TYPE mood AS ENUM ('calm'); CREATE TABLE alembic_version (id int GENERATED ALWAYS AS IDENTITY, mood mood, key serial)"
)


def run(url: str, sql: str) -> list[tuple[object, ...]]:
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def here(postgres: Postgres) -> Iterator[str]:
    """Yield what the names of databases and roles of a test begin with."""
    prefix = f"local_{uuid4().hex[:8]}_"
    yield prefix
    with closing(psycopg2.connect(postgres.url("postgres"))) as server, server.cursor() as cursor:
        server.autocommit = True
        for name in ("warehouse", "airflow"):
            cursor.execute(f"DROP DATABASE IF EXISTS {prefix}{name} WITH (FORCE)")
        for name in (*DUTIES, "airflow"):
            cursor.execute(f"DROP ROLE IF EXISTS {prefix}{name}")


@pytest.fixture
def admin(postgres: Postgres, here: str) -> Callable[[str], str]:
    """Return a function that creates a database and returns the URL of the administrator."""

    def made(name: str) -> str:
        postgres.ensure_database(here + name)
        return postgres.url(here + name)

    return made


@pytest.fixture
def passwords(tmp_path: Path) -> logins.Passwords:
    return partial(logins.kept, tmp_path)


def loads(urls: dict[str, str]) -> None:
    """Do everything that the roles do."""
    by_hand.everything(Urls(operator=urls[LEDGER_URL], writer=urls[WRITER_URL], stager=urls[STAGER_URL]))


def test_each_login_can_do_its_work_and_the_writer_creates_the_output(admin, here, passwords):
    urls = logins.of_ledger(admin("warehouse"), passwords, prefix=here)
    run(urls[WRITER_URL], TABLES)
    loads(urls)
    assert run(urls[READER_URL], "SELECT count(*) > 0 FROM tideline.batch") == [(True,)]


def test_no_login_is_a_superuser_or_may_act_as_the_ledgers_owner(admin, here, passwords):
    urls = logins.of_ledger(admin("warehouse"), passwords, prefix=here)
    asked = f"SELECT current_user::text, rolsuper OR pg_has_role('{here}owner', 'MEMBER') FROM pg_roles WHERE rolname = current_user"
    found = [run(urls[variable], asked)[0] for variable in (LEDGER_URL, WRITER_URL, STAGER_URL, READER_URL)]
    assert found == [(here + duty, False) for duty in ("operator", "writer", "stager", "reader")]


def test_a_database_of_an_older_version_is_handed_over_with_its_rows(admin, here, passwords):
    url = admin("warehouse")
    with Ledger(url, actor="test") as ledger:
        migrate(ledger)
    run(url, TABLES + OLDER)
    urls = logins.of_ledger(url, passwords, prefix=here)
    loads(urls)
    assert run(urls[WRITER_URL], "ALTER TABLE of_a_person ADD more int; SELECT n FROM seen") == [(7,)]
    assert run(urls[LEDGER_URL], "SELECT n FROM of_a_person") == [(7,)]
    assert run(url, "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'tideline'") == [("postgres",)]


def test_a_second_start_changes_no_password_and_finds_nothing_to_do(admin, here, passwords, tmp_path):
    url = admin("warehouse")
    first = logins.of_ledger(url, passwords, prefix=here)
    run(first[WRITER_URL], TABLES)
    loads(first)
    assert logins.of_ledger(url, passwords, prefix=here) == first
    loads(first)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {file.parent.name for file in files} == {here + duty for duty in GRANTED}
    assert {oct(file.stat().st_mode & 0o777) for file in files} == {"0o600"}


def test_airflow_owns_its_database_and_looks_into_no_other(admin, here, passwords):
    warehouse, airflow = admin("warehouse"), admin("airflow")
    urls = logins.of_ledger(warehouse, passwords, prefix=here)
    run(airflow, OLDER)
    url = logins.of_airflow(airflow, passwords, role=f"{here}airflow")
    assert url == logins.of_airflow(airflow, passwords, role=f"{here}airflow")
    run(
        url,
        "ALTER TABLE alembic_version ADD more int; DROP VIEW seen; DROP TABLE of_a_person; ALTER TYPE mood ADD VALUE 'loud'",
    )
    run(url, "CREATE TABLE more (n int); ALTER SEQUENCE numbers RESTART")
    refused = [
        (url, f"{here}warehouse"),
        *((urls[variable], f"{here}airflow") for variable in (LEDGER_URL, WRITER_URL, STAGER_URL, READER_URL)),
    ]
    for login, database in refused:
        with pytest.raises(psycopg2.OperationalError, match="permission denied for database"):
            psycopg2.connect(login, dbname=database)
