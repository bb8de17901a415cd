"""The command line beside a real Airflow: it sees the DAGs, and starts runs of them."""

import json
from urllib.parse import unquote

from operating import command
from system import decoded

NAME = "commanded"


def test_a_loaded_pipeline_is_sound_and_a_replay_by_command_waits_for_its_paused_dag(system):
    sent = system.fill(NAME, 20, partitions=2)
    system.run(NAME)
    (loaded,) = system.batches(NAME)

    checks = {
        (c["about"], c["check"]): c for c in json.loads(command(system, "tideline", "doctor", NAME, "--json"))["checks"]
    }
    assert {check["verdict"] for place, check in checks.items() if place != ("ledger", "staging")} == {"ok"}
    assert checks["airflow", "connection"]["found"].startswith("Airflow 3.")
    assert checks[NAME, "dag"]["found"] == "is on"
    assert checks[NAME, "output"]["found"] == f"e2e.{NAME} can be written"

    system.airflow.call("PATCH", f"dags/{NAME}", is_paused=True)
    said = command(system, "tideline", "replay", NAME, "--batch", str(loaded), "--reason", "to see it work", "--json")
    [run] = json.loads(said)["runs"]
    assert run["dag_is_paused"] is True
    assert system.batches(NAME) == {loaded: "advanced", run["batch_id"]: "planned"}

    system.airflow.unpause(NAME)
    system.succeed(NAME, unquote(run["url"].rpartition("/")[2]))
    assert system.batches(NAME) == {loaded: "superseded", run["batch_id"]: "advanced"}
    assert system.output(NAME) == decoded(sent)
