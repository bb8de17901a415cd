"""Migrations: each file once, in order, all or nothing, never on an unknown ledger; and no work on a ledger of another release."""

import os
import shutil
import subprocess
import sys
from importlib.resources import files

import pytest
from psycopg2.extensions import TRANSACTION_STATUS_IDLE
from psycopg2.sql import SQL

from given_ledger import ledgers
from given_ledger.ledgers import query
from servers.cli_process import Cli
from servers.concurrency import beside, together
from tideline.errors import FatalError, RetryableError
from tideline.ledger import attempts, publishing
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline.ledger.versions import migrations, require_current

NAMES = [name for name, _ in migrations().values()]


@pytest.fixture
def empty_url(postgres):
    """Create a database without a ledger."""
    with ledgers.copy_of(postgres, "template1") as url:
        yield url


@pytest.fixture
def empty(empty_url):
    with Ledger(empty_url, actor="test") as session:
        yield session


def test_migrating_twice_does_nothing(empty):
    assert migrate(empty) == NAMES
    before = query(empty, "SELECT * FROM tideline.migration")
    assert migrate(empty) == []
    assert query(empty, "SELECT * FROM tideline.migration") == before


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_keep_every_text_is_refused_and_named(postgres, encoding, tmp_path):
    name = f"odd_{encoding.lower()}"
    with ledgers.copy_of(postgres, "template1") as url, Ledger(url, actor="admin") as admin:
        admin.connection.autocommit = True
        made = f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE_PROVIDER libc LOCALE 'C'"
        admin.run_sql(SQL(made), {})
        try:
            with Ledger(postgres.url(name), actor="test") as session:
                with pytest.raises(
                    FatalError, match=f"database {name}: expected the encoding UTF8, found {encoding}"
                ) as caught:
                    migrate(session)
                assert "TEMPLATE template0 ENCODING 'UTF8'" in caught.value.next_step
                assert query(session, "SELECT to_regnamespace('tideline'), current_setting('client_encoding')") == [
                    (None, "UTF8")
                ]
            shell = Cli(folder=tmp_path, variables={"TIDELINE_LEDGER_URL": postgres.url(name)})
            found = {one["check"]: one for one in shell.json("doctor", code=30)["checks"]}
            assert (found["encoding"]["verdict"], found["encoding"]["found"].split(":")[0]) == (
                "bad",
                f"expected UTF8, found {encoding}",
            )
        finally:
            admin.run_sql(SQL(f"DROP DATABASE {name} WITH (FORCE)"), {})


def test_migrations_at_once_apply_each_file_once(empty_url):
    def work():
        with Ledger(empty_url, actor="test") as own:
            return migrate(own)

    applied = together(*[work] * 8)
    assert sorted(applied) == [[]] * 7 + [NAMES]


def test_a_file_that_has_changed_since_is_refused(ledger):
    query(ledger, "UPDATE tideline.migration SET checksum = 'of another text' WHERE number = 1")
    with pytest.raises(FatalError, match=rf"migration {NAMES[0]} has changed since it was applied"):
        migrate(ledger)


def test_a_newer_ledger_is_refused(ledger):
    query(ledger, "INSERT INTO tideline.migration VALUES (%s, 'of the future', 'x')", len(NAMES) + 1)
    with pytest.raises(FatalError, match=f"has migration {len(NAMES) + 1:04}, this code knows {len(NAMES):04} only"):
        migrate(ledger)


def test_a_migration_that_fails_in_the_middle_leaves_nothing(empty):
    """A schema that already exists makes a statement in the middle of the first file fail."""
    query(empty, "CREATE SCHEMA tideline_staging")
    with pytest.raises(FatalError, match=f'{NAMES[0]} failed: schema "tideline_staging" already exists'):
        migrate(empty)
    assert query(empty, "SELECT to_regnamespace('tideline')") == [(None,)]
    query(empty, "DROP SCHEMA tideline_staging")
    assert migrate(empty) == NAMES


def test_a_migration_that_fails_takes_those_before_it_back(empty, release):
    _, known = release("CREATE TABLE tideline.further ();", "SELECT 1 / 0;")
    with pytest.raises(FatalError, match=r"_next.sql failed: division by zero"):
        migrate(empty, known)
    assert query(empty, "SELECT to_regnamespace('tideline')") == [(None,)]


def test_a_database_without_a_ledger_says_how_to_make_one(empty):
    query(empty, "CREATE SCHEMA tideline")
    with (
        pytest.raises(FatalError, match=r"tables are missing(.|\n)*tideline migrate"),
        empty.transaction(),
    ):
        empty.rows("list_open_batches", pipeline="impressions")


# A ledger of another release --------------------------------------------------------------------------------------------


def test_a_ledger_of_this_release_is_used(ledger):
    require_current(ledger)
    assert ledger.connection.info.transaction_status == TRANSACTION_STATUS_IDLE


def make_older(ledger):
    """Let a ledger be one that has not had the newest migration yet."""
    query(ledger, "DELETE FROM tideline.migration WHERE number = (SELECT max(number) FROM tideline.migration)")


def test_an_older_ledger_is_not_used(ledger):
    make_older(ledger)
    with pytest.raises(FatalError, match=rf"older than this code: it has not had {NAMES[-1]}(.|\n)*tideline migrate"):
        require_current(ledger)


@pytest.mark.parametrize("newest", ["0029_views.sql", "0004_moves.sql"])
def test_a_ledger_from_before_the_first_release_is_neither_migrated_nor_used(ledger, ledger_url, tmp_path, newest):
    """It holds what was written by rules that this code does not know any more."""
    number = int(newest[:4])
    query(
        ledger,
        "DELETE FROM tideline.migration WHERE number > 1;"
        " INSERT INTO tideline.migration SELECT number, 'former', 'x' FROM generate_series(3, %s) AS number;"
        " INSERT INTO tideline.migration VALUES (2, '0002_laws.sql', 'x'), (%s, %s, 'x');",
        number - 1, number, newest,
    )  # fmt: skip
    before = query(ledger, "TABLE tideline.migration")
    found = f"0001_ledger.sql had made all of it, found {number} migrations up to {newest}"
    for use in (migrate, require_current):
        with pytest.raises(FatalError, match=rf"before the first release: .*{found}(.|\n)*an empty database"):
            use(ledger)
    cli = Cli(folder=tmp_path, variables={"TIDELINE_LEDGER_URL": ledger_url})
    [check] = [one for one in cli.json("doctor", code=30)["checks"] if one["check"] == "migrations"]
    assert check["verdict"] == "bad"
    assert found in check["found"]
    assert query(ledger, "TABLE tideline.migration") == before


def test_a_newer_ledger_is_not_used(ledger):
    query(ledger, "INSERT INTO tideline.migration VALUES (%s, 'of the future', 'x')", len(NAMES) + 1)
    with pytest.raises(FatalError, match="this code knows"):
        require_current(ledger)


def test_a_ledger_migrated_with_other_files_is_not_used(ledger):
    query(ledger, "UPDATE tideline.migration SET checksum = 'of another text' WHERE number = 1")
    with pytest.raises(FatalError, match="has changed since it was applied"):
        require_current(ledger)


def test_a_database_without_a_ledger_is_not_used(empty):
    with pytest.raises(FatalError, match=r"tables are missing(.|\n)*tideline migrate"):
        require_current(empty)


def test_the_command_brings_a_ledger_up_to_date_and_its_check_changes_nothing(empty, empty_url, tmp_path):
    cli = Cli(folder=tmp_path, variables={"TIDELINE_LEDGER_URL": empty_url})
    assert cli.json("migrate", "--check", code=30) == {"missing": NAMES}
    assert query(empty, "SELECT to_regclass('tideline.migration')") == [(None,)]
    assert cli.json("migrate") == {"applied": NAMES}
    assert cli.json("migrate", "--check") == {"missing": []}
    assert cli("migrate").stdout == "the ledger is up to date\n"
    make_older(empty)
    assert cli.json("migrate", "--check", code=30) == {"missing": [NAMES[-1]]}


BATCHES = ["--pipeline", "impressions", "--dag-id", "d", "--run-id", "r", "--task-id", "write", "--try-number", "1"]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["-m", "tideline.spark_jobs.write_batches", "--batches", "1", *BATCHES], id="Spark driver"),
        pytest.param(
            ["-c", "from tideline.cli.entry import main; main()", "streams", "impressions"], id="command line"
        ),
    ],
)
def test_work_on_an_older_ledger_ends_before_it_begins(ledger, ledger_url, command):
    make_older(ledger)
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "TIDELINE_LEDGER_URL": ledger_url},
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == FatalError.exit_code, done.stderr
    assert "older than this code" in done.stdout + done.stderr


# Outside of a transaction -----------------------------------------------------------------------------------------------

INDEX = "-- outside of a transaction\n-- Who did what.\nCREATE INDEX CONCURRENTLY IF NOT EXISTS event_actor ON tideline.event (actor);\n"
VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('tideline.event_actor')"


@pytest.fixture
def release(tmp_path):
    """Return a function that makes a next release: the files of this one and further files. It returns the further names, and all names."""
    shutil.copytree(files("tideline.ledger").joinpath("migrations"), tmp_path, dirs_exist_ok=True)

    def release(*texts):
        names = [f"{len(NAMES) + 1 + n:04}_next.sql" for n in range(len(texts))]
        for name, text in zip(names, texts, strict=True):
            (tmp_path / name).write_text(text)
        return names, migrations(tmp_path)

    return release


def test_an_index_is_made_outside_of_a_transaction_between_its_neighbours(ledger, release):
    names, known = release(
        "CREATE TABLE tideline.before ();", INDEX, "CREATE TABLE tideline.after AS SELECT to_regclass('tideline.event_actor');"
    )  # fmt: skip
    assert migrate(ledger, known) == names
    assert query(ledger, VALID) == [(True,)]
    assert query(ledger, "SELECT to_regclass FROM tideline.after WHERE to_regclass IS NOT NULL") != []
    assert migrate(ledger, known) == []
    assert query(ledger, "SHOW lock_timeout") == [("30s",)]


def test_an_index_whose_making_was_cut_off_is_made_anew(ledger, ledger_url, release):
    names, known = release(INDEX)
    with Ledger(ledger_url, actor="writer") as writer:
        writer.rows_of(SQL("INSERT INTO tideline.pipeline VALUES ('impressions') RETURNING 1"), {})
        writer.rows_of(
            SQL("INSERT INTO tideline.event (action, pipeline) VALUES ('retry', 'impressions') RETURNING 1"), {}
        )
        with Ledger(ledger_url, actor="killed") as killed:
            result = beside(lambda: migrate(killed, known))
            ledgers.wait_for_a_lock(ledger_url)
            query(ledger, "SELECT pg_terminate_backend(%s)", killed.connection.info.backend_pid)
            with pytest.raises(RetryableError):
                result()
    assert query(ledger, VALID) == [(False,)]
    assert migrate(ledger, known) == names
    assert query(ledger, VALID) == [(True,)]


def test_an_index_that_was_made_but_not_recorded_is_recorded(ledger, release):
    names, known = release(INDEX)
    migrate(ledger, known)
    made = query(ledger, "SELECT 'tideline.event_actor'::regclass::oid")
    query(ledger, "DELETE FROM tideline.migration WHERE number = %s", len(NAMES) + 1)
    assert migrate(ledger, known) == names
    assert query(ledger, "SELECT 'tideline.event_actor'::regclass::oid") == made


def test_migrations_at_once_make_an_index_once(empty_url, release):
    names, known = release(INDEX, "CREATE TABLE tideline.after ();")

    def work():
        with Ledger(empty_url, actor="test") as own:
            return migrate(own, known)

    assert sorted(name for done in together(*[work] * 6) for name in done) == NAMES + names


def test_an_index_that_cannot_be_made_says_why_and_is_not_recorded(ledger, release):
    _, known = release(INDEX.replace("INDEX", "UNIQUE INDEX"))
    query(ledger, "INSERT INTO tideline.pipeline VALUES ('impressions')")
    query(
        ledger,
        "INSERT INTO tideline.event (action, pipeline) VALUES ('retry', 'impressions'), ('refuse', 'impressions')",
    )
    with pytest.raises(FatalError, match=r"_next.sql failed: could not create unique index"):
        migrate(ledger, known)
    assert query(ledger, "SELECT max(number) FROM tideline.migration") == [(len(NAMES),)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(INDEX.replace(" IF NOT EXISTS", ""), id="not to be repeated"),
        pytest.param(INDEX + "CREATE TABLE tideline.beside ();", id="two statements"),
        pytest.param("-- outside of a transaction\nVACUUM tideline.event;", id="another statement"),
    ],
)
def test_what_cannot_be_repeated_after_a_crash_runs_in_a_transaction(release, text):
    with pytest.raises(FatalError, match="runs outside of a transaction"):
        release(text)


# A migration while work goes on ---------------------------------------------------------------------------------------


def further() -> dict[int, tuple[str, str]]:
    """Return the migrations of a newer release."""
    return {
        **migrations(),
        len(NAMES) + 1: (f"{len(NAMES) + 1:04}_further.sql", "CREATE TABLE tideline.further (id bigint)"),
    }


def test_a_driver_of_the_release_before_publishes_nothing_on_a_migrated_ledger(ledger, ledger_url):
    (stream,) = ledgers.start_streams(ledger, 1)
    batch_id = ledgers.plan(ledger, {stream: (0, 10)})
    attempt = ledgers.claim(ledger, batch_id)
    ledgers.stage(ledger, attempt)
    with Ledger(ledger_url, actor="operator") as operator:
        assert len(migrate(operator, further())) == 1
    refused = rf"the ledger was migrated since .* has {len(NAMES) + 1} migrations, this code knows {len(NAMES)}"
    with pytest.raises(RetryableError, match=refused) as caught, attempts.failing(ledger, attempt):
        ledgers.publish(ledger, attempt)
    assert caught.value.next_step.startswith("run the task again")
    assert query(ledger, "SELECT state::text FROM tideline.batch") == [("failed",)]
    assert query(ledger, "SELECT FROM tideline.coverage") == []
    # The next try is of the release that the ledger was migrated with.
    query(ledger, "DELETE FROM tideline.migration WHERE name ~ 'further'")
    again = ledgers.claim(ledger, batch_id)
    ledgers.stage(ledger, again)
    ledgers.publish(ledger, again)
    assert query(
        ledger, "SELECT state::text, n_read FROM tideline.batch JOIN tideline.batch_range USING (batch_id)"
    ) == [("published", 10)]


@pytest.mark.parametrize("first", ["publication", "migration"])
def test_a_publication_and_a_migration_wait_for_each_other(ledger, ledger_url, first):
    (stream,) = ledgers.start_streams(ledger, 1)
    attempt = ledgers.claim(ledger, ledgers.plan(ledger, {stream: (0, 10)}))
    ledgers.stage(ledger, attempt)
    with Ledger(ledger_url, actor="operator") as operator:
        if first == "publication":
            with ledger.transaction():
                assert publishing.holder(ledger, attempt) is None
                waiting = beside(lambda: migrate(operator, further()))
                ledgers.wait_for_a_lock(ledger_url)
            assert len(waiting()) == 1
            return
        with operator.transaction():
            operator.run("prepare_migrations")  # as a migration begins
            waiting = beside(lambda: ledgers.publish(ledger, attempt))
            ledgers.wait_for_a_lock(ledger_url)
            operator.run("record_migration", number=len(NAMES) + 1, name="further", checksum="")
        with pytest.raises(RetryableError, match="was migrated since this process began"):
            waiting()
