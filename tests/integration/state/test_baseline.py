"""The DAG `ads_baseline`: an hour has one version, which is complete or not there, and never changes."""

import time
from datetime import timedelta

import psycopg2
import psycopg2.errors
import pytest

from given_ledger.ledgers import query
from loads import offer_events
from loads.offer_events import NOON, count
from servers.concurrency import beside, together
from tideline.errors import FatalError, RetryableError
from tideline.ledger.connection import Ledger

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def job():
    return offer_events.baseline()


@pytest.fixture
def tables(ledger):
    """Create what is counted: two offers that end at noon, and one that has ended eight days before."""
    offer_events.create_inputs(ledger)
    count(ledger, 1, 300, 30)
    count(ledger, 2, 100, 0)
    count(ledger, 3, 5, 5, end=NOON - timedelta(days=8))
    return ledger


def versions(ledger):
    """Return the hour of each version, with its rows."""
    rows = query(
        ledger,
        "SELECT version, hour, offer_id, impressions, conversions FROM ads.baseline_version LEFT JOIN ads.baseline USING (version) ORDER BY 1, 3",
    )
    found = {}
    for version, hour, *row in rows:
        found.setdefault((version, hour), []).append(tuple(row))
    return found


def test_a_version_counts_the_seven_days_before_its_hour(job, tables):
    said = job.compute(tables, NOON)
    [((version, hour), rows)] = versions(tables).items()
    assert (hour, rows) == (NOON, [(1, 299, 29), (2, 99, 0)])  # the last loaded minute is where it ends
    assert said == (
        f"version {version} of 2026-11-01T12:00Z: 2 offers, from 2026-10-25T11:59:00Z to 2026-11-01T11:59:00Z; 0 old versions deleted"
    )
    assert query(tables, "SELECT * FROM ads.baseline_current ORDER BY offer_id") == [
        (version, 1, 299, 29),
        (version, 2, 99, 0),
    ]


def test_twice_for_an_hour_gives_one_version_also_when_more_was_loaded_since(job, tables):
    job.compute(tables, NOON)
    before = versions(tables)
    count(tables, 9, 50, 5)
    assert job.compute(tables, NOON).endswith("of 2026-11-01T12:00Z is there")
    assert versions(tables) == before


def test_two_runs_at_once_give_one_version(job, tables, ledger_url):
    def computed():
        with Ledger(ledger_url, actor="test") as session:
            return job.compute(session, NOON)

    said = together(*[computed] * 4)
    assert sum("is there" in one for one in said) == 3
    assert [len(rows) for rows in versions(tables).values()] == [2]


def test_the_database_has_one_version_of_an_hour_for_every_client(job, tables):
    job.compute(tables, NOON)
    with pytest.raises(psycopg2.errors.UniqueViolation):
        query(
            tables,
            "INSERT INTO ads.baseline_version (hour, begins_at, ends_at) SELECT hour, begins_at, ends_at FROM ads.baseline_version",
        )


def test_a_run_that_dies_between_its_statements_leaves_nothing_and_the_next_one_computes_it(job, tables, ledger_url):
    job.compute(tables, NOON - HOUR)
    before = versions(tables)
    # The version is added before this lock stops the count.
    query(tables, "ALTER TABLE ads.baseline ADD COLUMN waits int")
    query(tables, "CREATE FUNCTION wait_long() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1 FROM pg_sleep(600)'")
    query(tables, "ALTER TABLE ads.baseline ALTER COLUMN waits SET DEFAULT wait_long()")

    def computed():
        with Ledger(ledger_url, actor="test") as session, pytest.raises(RetryableError, match="did not carry out"):
            job.compute(session, NOON)

    ended = beside(computed)
    sleeping = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    patience = time.monotonic() + 60
    while not query(tables, sleeping):
        assert time.monotonic() < patience
    ended()
    assert versions(tables) == before
    query(tables, "ALTER TABLE ads.baseline DROP COLUMN waits")
    job.compute(tables, NOON)
    assert [hour for _, hour in versions(tables)] == [NOON - HOUR, NOON]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ads.baseline SET conversions = conversions + 1",
        "DELETE FROM ads.baseline",
        "TRUNCATE ads.baseline",
        "TRUNCATE ads.baseline_version CASCADE",
        "INSERT INTO ads.baseline SELECT version, 77, 1, 1 FROM ads.baseline_version",
        "UPDATE ads.baseline_version SET ends_at = ends_at - interval '1 hour'",
    ],
)
def test_a_version_never_changes_whichever_client_tries(job, tables, change):
    job.compute(tables, NOON)
    before = versions(tables)
    with pytest.raises(psycopg2.errors.RestrictViolation, match="never changes"):
        query(tables, change)
    assert versions(tables) == before


def test_old_versions_are_deleted_with_their_rows(job, tables):
    job.compute(tables, NOON)
    count(tables, 1, 10, 1, end=NOON + timedelta(days=29))
    job.compute(tables, NOON + timedelta(days=29))
    count(tables, 1, 10, 1, end=NOON + timedelta(days=31))
    assert job.compute(tables, NOON + timedelta(days=31)).endswith("; 1 old versions deleted")
    assert [hour for _, hour in versions(tables)] == [NOON + timedelta(days=29), NOON + timedelta(days=31)]
    assert query(tables, "SELECT count(DISTINCT version)::int FROM ads.baseline") == [(2,)]


def test_an_hour_whose_conversions_are_not_loaded_yet_does_not_lower_the_rates(job, tables):
    count(tables, 1, 60, 0, end=NOON + HOUR)
    job.compute(tables, NOON + HOUR)
    [rows] = versions(tables).values()
    assert rows[0] == (1, 299, 29)


def test_an_hour_computed_late_is_not_the_current_one(job, tables):
    job.compute(tables, NOON)
    job.compute(tables, NOON - HOUR)
    assert query(
        tables, "SELECT DISTINCT hour FROM ads.baseline_current JOIN ads.baseline_version USING (version)"
    ) == [(NOON,)]


def test_a_table_that_is_missing_is_named_and_nothing_is_left(job, ledger):
    query(ledger, (offer_events.IMPRESSIONS / "target.sql").read_text())
    with pytest.raises(FatalError, match=r'cannot read the table that it counts: relation "ads.conversions" does'):
        job.compute(ledger, NOON)
    assert query(ledger, "SELECT to_regclass('ads.baseline')") == [(None,)]
