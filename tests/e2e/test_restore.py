"""The database is restored from a dump under the running stack: Airflow still has the runs that the restored ledger does not know."""

from psycopg2.extensions import parse_dsn

import records
from ledger_dump import at_server
from system import decoded

NAME = "announced"


def test_offsets_forgotten_by_a_restored_ledger_are_refused_and_loaded_again_once(system, announced, tmp_path):
    sent = announced.sent
    file = str(tmp_path / "tideline.dump")
    at_server("pg_dump", system.url, "--format=custom", f"--file={file}")
    later = records.produce(system.bootstrap, NAME, map(records.record, range(100, 140)), partitions=2)
    forgotten = system.run(NAME)
    [batch_id] = system.planned(NAME, forgotten)
    assert system.output(NAME) == decoded(sent | later)

    at_server(
        "pg_restore", system.url, "--clean", "--if-exists", "--exit-on-error", f"--dbname={database(system)}", file
    )
    assert (system.output(NAME), system.heads(NAME)) == (decoded(sent), [50, 50])

    system.airflow.clear(NAME, forgotten, "write", "advance")
    assert system.airflow.finished(NAME, forgotten) == "failed"
    refused = f"expected batches {batch_id} among those of the run {forgotten} of {NAME}"
    assert refused in system.log(NAME, forgotten, "write")
    assert "was the ledger restored to an earlier moment?" in system.log(NAME, forgotten, "write")
    system.airflow.mark(NAME, forgotten, "write", "success")
    system.wait(lambda: system.states(NAME, forgotten)["advance"] == "failed", "advance to be refused as well")
    # A run that is cleared while the scheduler is about to mark it as failed stays failed.
    assert system.airflow.finished(NAME, forgotten) == "failed"
    assert refused in system.log(NAME, forgotten, "advance")
    assert (system.output(NAME), system.heads(NAME)) == (decoded(sent), [50, 50])

    # As the message says: clear the whole run. It plans in the restored ledger, and loads what the restore has lost.
    system.airflow.clear(NAME, forgotten)
    system.succeed(NAME, forgotten)
    assert (system.output(NAME), system.heads(NAME)) == (decoded(sent | later), [70, 70])


def database(system) -> str:
    return parse_dsn(system.url)["dbname"]
