"""What keeps a run from planning is reported in the log of `plan`, and notified once: where, what was expected, what to do.

For the other mistakes see tests/unit/test_trigger_form.py, and tests/integration/kafka/test_kafka_access.py for topics and brokers.
"""

from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg2

import records
from notifications import notified

NAME = "refused"


def test_a_broken_declaration_names_file_and_key_and_leaves_the_other_dags_alive(system):
    run_id = system.scheduled("broken")
    assert system.airflow.finished("broken", run_id) == "failed"
    log = system.log("broken", run_id, "plan")
    assert "broken/pipeline.yaml:3: retires: unknown key" in log
    assert [(sent.task_id, sent.event) for sent in notified(system, run_id)] == [("plan", "failure")]
    assert 'broken/pipeline.yaml:11: limits.batch_records: expected an integer above 0, found "many"' in log
    dags = system.airflow.call("GET", "dags?limit=200")["dags"]
    assert {dag["dag_id"] for dag in dags} >= {folder.name for folder in (system.folder / "pipelines").iterdir()}
    assert system.airflow.call("GET", "importErrors")["import_errors"] == []


def test_a_ledger_that_cannot_be_reached_is_reported_as_such(system):
    records.create(system.bootstrap, name=NAME)
    with refusing_connections(system.url):
        run_id = system.fail(NAME)
    log = system.log(NAME, run_id, "plan")
    assert "the ledger's database cannot be reached" in log
    assert "TIDELINE_LEDGER_URL" in log
    # Both `plan` and `announce` have failed.
    assert [(sent.task_id, sent.event) for sent in notified(system, run_id)] == [("plan", "failure")]


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
