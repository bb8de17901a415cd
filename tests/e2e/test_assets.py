"""Assets: the events that consumers of a pipeline get, and runs that records start. For a cleared run see test_impressions.py."""

import pytest

import records
import secured_login
from assets import described, events
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
    loaded(system, sent)
    return sent


def more(system, sent, count):
    numbers = range(len(sent), len(sent) + count)
    sent |= records.produce(system.bootstrap, "woken", map(records.record, numbers), partitions=2)


def loaded(system, sent):
    """Wait until nothing is missing, and no run is active that could still add something."""
    system.wait(lambda: sum(system.heads("woken")) >= len(sent), "the heads to pass the records", seconds=300)
    quiet(system)
    assert system.output("woken") == decoded(sent)


def quiet(system):
    system.wait(
        lambda: all(state in {"success", "failed"} for _, state in runs(system, "woken").values()),
        "all runs to end",
        seconds=300,
    )


def test_a_woken_pipeline_goes_on_until_it_has_loaded_all_there_is(system, woken):
    """More than one run plans, and no later record would start the next one."""
    planned = "SELECT count(*)::int FROM tideline.batch WHERE pipeline = 'woken' GROUP BY run_id"
    assert sorted(system.rows(planned)) == [(1,), (2,)]
    assert system.heads("woken") == [15, 15]


def test_new_records_wake_a_pipeline_without_a_schedule(system, woken):
    before = set(system.batches("woken"))
    more(system, woken, 20)
    loaded(system, woken)
    assert set(runs(system, "woken").values()) == {("asset_triggered", "success")}
    assert set(system.batches("woken")) > before


def test_a_password_that_only_airflow_keeps_reaches_task_trigger_and_spark(system, woken):
    """It is in its secrets backend, and the user is in a file: no process of Airflow has either in its environment."""
    password = system.stack.broker.sasl_password
    assert [name for name, value in system.environment.items() if password in value] == []
    assert secured_login.PASSWORD in (system.folder / "pipelines" / "woken" / "pipeline.yaml").read_text()
    run_id = max(runs(system, "woken"))
    assert "--batches=" in str(system.airflow.tasks("woken", run_id)["write"]["rendered_fields"])
    assert password not in str(system.airflow.tasks("woken", run_id))


def test_an_event_that_is_doubled_changes_nothing(system, woken):
    quiet(system)
    before = (system.output("woken"), system.batches("woken"), system.heads("woken"))
    known = set(runs(system, "woken"))
    for _ in range(2):
        system.airflow.call("POST", "assets/events", asset_id=described(system, "woken records")["id"], extra={})
    system.wait(lambda: set(runs(system, "woken")) - known, "the events to start a run")
    quiet(system)
    assert (system.output("woken"), system.batches("woken"), system.heads("woken")) == before
    for run_id in set(runs(system, "woken")) - known:
        assert set(system.states("woken", run_id).values()) == {"skipped"}


def test_an_event_that_is_lost_is_made_up_for_by_the_next(system, woken):
    """An event that a paused DAG misses is not delivered later either."""
    system.airflow.call("PATCH", "dags/woken", is_paused=True)
    known = len(events(system, "woken records"))
    more(system, woken, 10)
    system.wait(
        lambda: len(events(system, "woken records")) > known or not described(system, "woken records")["watchers"],
        "the event to be lost, or the watching to have ended",
    )
    assert len(system.output("woken")) == len(woken) - 10
    system.look_for_records("woken")
    more(system, woken, 10)
    loaded(system, woken)
