"""The task `write` where Spark runs on Kubernetes in cluster mode: the driver is a pod, and has of Airflow's task no more than its arguments.

The API server is as much of one as Spark uses, and pods are processes; Airflow's operator, spark-submit, drivers and executors are real. Manifests,
roles and templates are those of deploy/kubernetes.
"""

import json
import os
import signal
import time
from urllib.parse import urlsplit

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from faults.jobs import kubernetes_namespace
from faults.jobs.kubernetes_namespace import DRIVES, SUBMITS
from faults.jobs.operator_tries import RECORDS, Load
from faults.jobs.order_outputs import Sink
from faults.jobs.rounds import TASK_S


@pytest.fixture(scope="module")
def namespace(crashing, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kubernetes")
    with pytest.MonkeyPatch.context() as patch, kubernetes_namespace.running(crashing, folder) as running:
        for name, value in running.variables.items():
            patch.setenv(name, value)
        yield running


@pytest.fixture
def load(crashing, namespace, request):
    made = Load(f"pods_{request.node.name.removeprefix('test_')[:20]}_{os.getpid()}", crashing, Sink.APPEND)
    yield made
    made.close()


def test_a_driver_in_a_pod_loads_each_record_once_and_kubernetes_shows_no_password(load, namespace):
    assert load.start_try(1).ended() is None
    assert load.verdict() == ([], RECORDS)
    password = urlsplit(load.servers.url).password
    assert password
    shown = json.dumps([one for kind, _, one in namespace.api.objects.events if kind != "secrets"])
    assert "write_batches.py" in shown
    assert password not in shown
    assert namespace.executors() == []


def test_an_executor_that_is_killed_is_replaced_and_nothing_is_lost_or_doubled(load, namespace):
    running = load.start_try(1)
    running.wait(load.is_writing, "it wrote")
    namespace.pods.kill(namespace.executors()[0])
    assert running.ended() is None
    assert load.verdict() == ([], RECORDS)


def test_a_driver_that_is_killed_fails_the_task_and_the_next_try_loads(load, namespace):
    running = load.start_try(1)
    running.wait(load.is_writing, "it wrote")
    namespace.pods.kill(namespace.drivers()[-1])
    error = running.ended()
    assert isinstance(error, AirflowException)
    assert not isinstance(error, AirflowFailException)
    assert load.start_try(2).ended() is None
    assert load.verdict() == ([], RECORDS)


def test_a_driver_that_outlives_its_task_is_superseded_by_that_of_the_next_try(load, namespace):
    """As if the machine of Airflow's worker had lost its power: spark-submit is gone, the driver is not, and it is slow."""
    lost = load.start_try(1)
    lost.wait(load.is_writing, "it wrote")
    old = namespace.drivers()[-1]
    namespace.pods.signal(old, signal.SIGSTOP)
    lost.spark_submit.kill()
    assert lost.ended() is not None
    assert load.start_try(2).ended() is None
    namespace.pods.signal(old, signal.SIGCONT)
    deadline = time.monotonic() + TASK_S
    while namespace.api.objects.get("pods", old)["status"]["phase"] == "Running":
        assert time.monotonic() < deadline, "the old driver goes on"
        time.sleep(0.1)
    assert namespace.api.objects.get("pods", old)["status"]["phase"] == "Failed"
    assert "was refused: expected to hold the batch, found a newer attempt" in namespace.pods.log(old)
    assert load.verdict() == ([], RECORDS)


def test_a_task_that_is_ended_in_airflow_deletes_its_driver(load, namespace):
    ended = load.start_try(1)
    ended.wait(load.is_writing, "it wrote")
    ended.task.on_kill()
    assert ended.ended() is not None
    assert namespace.api.objects.get("pods", namespace.drivers()[-1]) is None
    assert load.start_try(2).ended() is None
    assert load.verdict() == ([], RECORDS)


def test_a_mistake_of_the_pipeline_fails_the_task_at_once_and_the_log_says_where_to_read_it(load, namespace, capsys):
    (load.folder / "transform.py").write_text("raise ValueError('a mistake')\n")
    assert isinstance(load.start_try(1).ended(), AirflowFailException)
    [driver] = namespace.drivers()[-1:]
    assert f"kubectl logs --namespace tideline {driver}" in capsys.readouterr().out
    assert "a mistake" in namespace.pods.log(driver)


def test_the_roles_have_the_rights_that_were_used_and_no_others(namespace):
    """The last test of this file: it looks at what the others have used."""
    assert namespace.api.refused == []
    assert {role: namespace.api.rights[role] - namespace.api.used[role] for role in (SUBMITS, DRIVES)} == {
        SUBMITS: set(),
        DRIVES: set(),
    }
