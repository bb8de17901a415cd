"""The database is restored from a dump under the running stack: Airflow still has the runs that the restored ledger does not know."""

import pytest
from psycopg2.extensions import parse_dsn

import loaded_by_hand
import records
from ledger_dump import at_server
from tideline_stack import postgres

NAME = "restored"


def test_a_run_that_a_restored_ledger_has_forgotten_is_refused_and_once_it_is_cleared_planned_again(system, tmp_path):
    if postgres.version() < postgres.VERSION:
        pytest.skip("pg_dump writes settings that an older server does not have")
    system.fill(NAME, 100, partitions=2)
    loaded_by_hand.load(system, NAME)
    file = str(tmp_path / "tideline.dump")
    at_server("pg_dump", system.url, "--format=custom", f"--file={file}")
    records.produce(system.bootstrap, NAME, map(records.record, range(100, 140)), partitions=2)
    forgotten = system.start(NAME)
    [batch_id] = system.await_plan(NAME, forgotten)

    database = parse_dsn(system.url)["dbname"]
    at_server("pg_restore", system.url, "--clean", "--if-exists", "--exit-on-error", f"--dbname={database}", file)
    assert system.heads(NAME) == [50, 50]

    system.airflow.mark(NAME, forgotten, "write", "success")
    assert system.airflow.finished(NAME, forgotten) == "failed"
    log = system.log(NAME, forgotten, "advance")
    assert f"expected batches {batch_id} among those of the run {forgotten} of {NAME}" in log
    assert "was the ledger restored to an earlier moment?" in log
    assert system.heads(NAME) == [50, 50]

    # As the message says: clear the whole run. It plans in the restored ledger, and gets what the restore has lost.
    system.airflow.clear(NAME, forgotten)
    [again] = system.plan_only(NAME, forgotten)
    assert system.ranges(again) == {0: (50, 70), 1: (50, 70)}
