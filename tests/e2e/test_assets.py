"""Assets: the events that consumers of a pipeline get, and runs that records start. For a cleared run see test_impressions.py.

When records wake a pipeline again, and which events are doubled or lost: tests/integration/kafka/test_waking.py and test_announcing.py.
"""

import pytest

import secured_login
from assets import events
from system import decoded

BATCHES = [[(0, 20), (0, 20)], [(20, 40), (20, 40)], [(40, 50), (40, 50)]]


def runs(system, name):
    """Return the runs of a DAG by id, with type and state."""
    found = system.airflow.call("GET", f"dags/{name}/dagRuns?limit=100")["dag_runs"]
    return {run["dag_run_id"]: (run["run_type"], run["state"]) for run in found}


# Events of a pipeline -----------------------------------------------------------------------------------------------------------


def test_each_published_batch_is_one_event_with_its_ranges_and_counts(system, announced):
    found = events(system, "announced")
    assert {(event["source_dag_id"], event["source_run_id"]) for event in found} == {("announced", announced.run_id)}
    batch_ids = system.planned("announced", announced.run_id)
    attempts = dict(
        system.rows("SELECT batch_id, attempt::text FROM tideline.batch WHERE batch_id = ANY (%s)", batch_ids)
    )
    assert [event["extra"] for event in found] == [
        expected(batch_id, attempts[batch_id], ranges) for batch_id, ranges in zip(batch_ids, BATCHES, strict=True)
    ]


def expected(batch_id, attempt, ranges):
    count = sum(end - start for start, end in ranges)
    return {
        "pipeline": "announced",
        "batch": batch_id,
        "attempt": attempt,
        "kind": "live",
        "ranges": [
            {"topic": "announced", "partition": partition, "start": start, "end": end}
            for partition, (start, end) in enumerate(ranges)
        ],
        "read": count,
        "written": count,
        "rejected": 0,
        "filtered": 0,
        "gap": 0,
    }


def test_a_dag_that_waits_for_the_asset_runs_and_gets_all_batches(system, announced):
    run_id = system.wait(lambda: next(iter(runs(system, "downstream")), None), "the waiting DAG to be started")
    system.succeed("downstream", run_id)
    assert runs(system, "downstream") == {run_id: ("asset_triggered", "success")}
    assert system.airflow.returned("downstream", run_id, "loaded") == [
        event["extra"] for event in events(system, "announced")
    ]


# Runs that records start ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def woken(system) -> dict:
    """Load the records of a pipeline without a schedule and without a manual run. A run takes only two thirds of them."""
    sent = system.fill("woken", 30, partitions=2)
    system.look_for_records("woken")
    system.wait(lambda: is_quiet_after(system, len(sent)), "all records to be loaded, and all runs to end")
    return sent


def is_quiet_after(system, count):
    """Return whether the heads have passed all records, and no run is active that could still add something; fail if a run has failed."""
    states = [state for _, state in runs(system, "woken").values()]
    assert "failed" not in states
    return set(states) == {"success"} and sum(system.heads("woken")) >= count


def test_records_wake_a_pipeline_that_goes_on_until_it_has_loaded_all_there_is(system, woken):
    """More than one run plans, and no later record would start the next one."""
    assert set(runs(system, "woken").values()) == {("asset_triggered", "success")}
    planned = "SELECT count(*)::int FROM tideline.batch WHERE pipeline = 'woken' GROUP BY run_id"
    assert sorted(system.rows(planned)) == [(1,), (2,)]
    assert system.output("woken") == decoded(woken)
    assert system.heads("woken") == [15, 15]


def test_a_password_that_only_airflow_keeps_reaches_task_trigger_and_spark(system, woken):
    """It is in its secrets backend, and the user is in a file: no process of Airflow has either in its environment."""
    password = system.stack.broker.sasl_password
    assert [name for name, value in system.environment.items() if password in value] == []
    assert secured_login.PASSWORD in (system.folder / "pipelines" / "woken" / "pipeline.yaml").read_text()
    run_id = max(runs(system, "woken"))
    rendered = system.airflow.rendered("woken", run_id, "write")
    assert "--batches=" in rendered
    assert password not in rendered + str(system.airflow.tasks("woken", run_id))
