"""The ledger's password is where the driver finds it, and nowhere where others could read it."""

from urllib.parse import quote, urlsplit

from loaded_runs import NAME
from secret_scan import Scan


def test_no_command_line_holds_the_password_while_a_batch_is_written(system, loaded):
    assert "write_batches.py" in loaded.command_lines[loaded.driver_pid]
    password = urlsplit(system.environment["TIDELINE_WRITER_URL"]).password
    assert [line for line in loaded.command_lines.values() if password in line] == []


def test_what_airflow_shows_of_a_run_holds_no_password(system, loaded):
    """This covers rendered templates and XCom."""
    password = urlsplit(system.environment["TIDELINE_LEDGER_URL"]).password
    tasks = system.airflow.tasks(NAME, loaded.run_id)
    rendered = system.airflow.rendered(NAME, loaded.run_id, "write")
    assert "--batches=" in rendered
    assert password not in rendered + str(tasks)
    path = f"dags/{NAME}/dagRuns/{quote(loaded.run_id, safe='')}/taskInstances"
    handed_over = {
        (task_id, entry["key"]): system.airflow.call("GET", f"{path}/{task_id}/xcomEntries/{entry['key']}")
        for task_id in tasks
        for entry in system.airflow.call("GET", f"{path}/{task_id}/xcomEntries")["xcom_entries"]
    }
    assert ("plan", "return_value") in handed_over
    assert password not in str(handed_over)


def test_the_search_at_the_end_knows_the_secrets_of_airflow_itself(system):
    """The key of Variables has no mark."""
    names = ("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")
    assert [name for name in names if not Scan().finds(system.environment[name].encode())] == []


def test_plan_hands_over_batch_ids_and_nothing_else(system, loaded):
    assert system.planned(NAME, loaded.run_id) == list(system.batches(NAME))


def test_the_search_at_the_end_reaches_the_logs_of_every_task_and_component(system, loaded):
    """`no_secret_is_left_behind` searches all files below the folder of all tests."""
    logs = [str(log.relative_to(system.folder / "stack")) for log in (system.folder / "stack").rglob("*.log")]
    parts = ("postgres/postgres.log", "kafka/kafka.log", "airflow/api-server.log", "airflow/triggerer.log")
    assert {*parts, "airflow/scheduler.log", "airflow/dag-processor.log"} <= {*logs}
    tasks = {task for log in logs for task in ("plan", "write", "advance") if f"dag_id={NAME}/" in log and task in log}
    assert tasks == {"plan", "write", "advance"}
