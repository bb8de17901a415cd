"""Migrations: each file once, in order, all or nothing, and never on a ledger that they do not know."""

import pytest

import ledgers
from asking import query
from racing import together
from tideline.errors import FatalError
from tideline.ledger import snapshot
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate, migrations

NAMES = [name for name, _ in migrations().values()]


@pytest.fixture
def empty_url(postgres):
    """A database without a ledger."""
    with ledgers.copy_of(postgres, "template1") as url:
        yield url


@pytest.fixture
def empty(empty_url):
    with Ledger(empty_url, actor="test") as session:
        yield session


def test_the_snapshot_for_readers_is_what_the_migrations_make(ledger_url):
    written = snapshot.PATH.read_text(encoding="utf-8")
    assert snapshot.snapshot(ledger_url) == written, "run `python -m tideline.ledger.snapshot`"


def test_migrating_twice_does_nothing(empty):
    assert migrate(empty) == NAMES
    before = query(empty, "SELECT * FROM tideline.migration")
    assert migrate(empty) == []
    assert query(empty, "SELECT * FROM tideline.migration") == before


def test_migrations_at_once_apply_each_file_once(empty_url):
    def work():
        with Ledger(empty_url, actor="test") as own:
            return migrate(own)

    applied = together(*[work] * 8)
    assert sorted(applied) == [[]] * 7 + [NAMES]


def test_a_file_that_has_changed_since_is_refused(ledger):
    query(ledger, "UPDATE tideline.migration SET checksum = 'of another text' WHERE number = 2")
    with pytest.raises(FatalError, match=rf"migration {NAMES[1]} has changed since it was applied"):
        migrate(ledger)


def test_a_newer_ledger_is_refused(ledger):
    query(ledger, "INSERT INTO tideline.migration VALUES (%s, 'of the future', 'x')", len(NAMES) + 1)
    with pytest.raises(FatalError, match=f"has migration {len(NAMES) + 1:04}, this code knows {len(NAMES):04} only"):
        migrate(ledger)


def test_a_migration_that_fails_in_the_middle_leaves_nothing(empty):
    """A schema that is there already stands in the way of the third file."""
    query(empty, "CREATE SCHEMA tideline_staging")
    with pytest.raises(FatalError, match=f'{NAMES[2]} failed: schema "tideline_staging" already exists'):
        migrate(empty)
    assert query(empty, "SELECT to_regnamespace('tideline')") == [(None,)]
    query(empty, "DROP SCHEMA tideline_staging")
    assert migrate(empty) == NAMES


def test_a_database_without_a_ledger_says_how_to_make_one(empty):
    query(empty, "CREATE SCHEMA tideline")
    with (
        pytest.raises(FatalError, match=r"tables are missing(.|\n)*python -m tideline\.ledger\.migrate"),
        empty.transaction(),
    ):
        empty.rows("list_open_batches", pipeline="impressions")
