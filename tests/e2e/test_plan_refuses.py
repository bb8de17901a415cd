"""User mistakes and unavailable servers are reported in the log of `plan`: where, what was expected, what to do."""

from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg2

import declared_pipelines
import records
from notifications import notified

NAME = "refused"


def test_an_unknown_key_in_conf_is_refused(system):
    run_id = system.fail(NAME, untill="2026-01-01T00:00:00Z")
    assert "unknown conf untill; known: load, reason, replace, until, " in system.log(NAME, run_id, "plan")
    assert system.batches(NAME) == {}


def test_a_broken_declaration_names_file_and_key_and_leaves_the_other_dags_alive(system):
    run_id = system.fail("broken")
    log = system.log("broken", run_id, "plan")
    assert "broken/pipeline.yaml:3: retires: unknown key" in log
    assert [(sent.task_id, sent.event) for sent in notified(system, run_id)] == [("plan", "failure")]
    assert 'broken/pipeline.yaml:11: limits.batch_records: expected an integer above 0, found "many"' in log
    dags = system.airflow.call("GET", "dags?limit=200")["dags"]
    assert {dag["dag_id"] for dag in dags} >= {folder.name for folder in (system.folder / "pipelines").iterdir()}
    assert system.airflow.call("GET", "importErrors")["import_errors"] == []


def test_a_missing_topic_is_named(system):
    run_id = system.fail(NAME)
    assert f"topic {NAME} does not exist" in system.log(NAME, run_id, "plan")


def test_a_ledger_that_cannot_be_reached_is_reported_as_such(system):
    records.create(system.bootstrap, name=NAME)
    with refusing_connections(system.url):
        run_id = system.fail(NAME)
    log = system.log(NAME, run_id, "plan")
    assert "the ledger's database cannot be reached" in log
    assert "TIDELINE_LEDGER_URL" in log
    # Both `plan` and `announce` have failed.
    assert [(sent.task_id, sent.event) for sent in notified(system, run_id)] == [("plan", "failure")]


def test_a_broker_that_does_not_answer_is_named(system):
    declared_pipelines.declare(system.folder / "pipelines" / NAME, retries=0, servers=declared_pipelines.UNREACHABLE)
    run_id = system.fail(NAME)
    assert f"brokers {declared_pipelines.UNREACHABLE} could not answer" in system.log(NAME, run_id, "plan")


@contextmanager
def refusing_connections(url):
    database = urlsplit(url).path.removeprefix("/")
    connection = psycopg2.connect(url, dbname="postgres")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        try:
            yield
        finally:
            cursor.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
    connection.close()
