"""The task `write` where Spark runs on Kubernetes in cluster mode: the driver is a pod, and has of Airflow's task no more than its arguments.

The API server is as much of one as Spark uses, and pods are processes; Airflow's operator, spark-submit, drivers and executors are real. Manifests,
roles and templates are those of deploy/kubernetes.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from confluent_kafka.admin import AdminClient

from faults.jobs import kubernetes_namespace, order_producer, orders, read_back
from faults.jobs.crashing_servers import Servers
from faults.jobs.job_verdict import verdict
from faults.jobs.kubernetes_namespace import DRIVES, SUBMITS
from faults.jobs.order_outputs import Output, Sink
from faults.jobs.rounds import TASK_S, Rounds
from faults.jobs.write_progress import Moment, Witness
from given_topics import topics
from tideline import flow
from tideline.airflow.spark_submit import write
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run

PARTITIONS = 3


@pytest.fixture(scope="module")
def namespace(crashing, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kubernetes")
    with pytest.MonkeyPatch.context() as patch, kubernetes_namespace.running(crashing, folder) as running:
        for name, value in running.variables.items():
            patch.setenv(name, value)
        yield running


class Load:
    """A pipeline with records, whose run has planned them."""

    def __init__(self, name: str, servers: Servers, folder: Path) -> None:
        self.servers = servers
        self.output = Output(pipeline=name, sink=Sink.APPEND, lakes=servers.folder / "lakes")
        self.run = Run(dag_id=name, run_id="run_1")
        self.witness = Witness(servers.url)
        topics.created(AdminClient({"bootstrap.servers": servers.bootstrap}), name, partitions=PARTITIONS)
        read_back.create_topics(self.output, servers.bootstrap)
        order_producer.fill(servers.bootstrap, name, orders.records(Random(1), 4_000), PARTITIONS)
        limits = {"batch_records": 4_000, "split_records": 100}
        orders.declare(servers.pipelines / name, name, self.output, limits=limits)
        rounds = Rounds(name, variables=servers.variables(), logs=folder, master="", refill=lambda: False)
        self.batch_ids = rounds.plan(self.run.run_id) or []

    def task(self, try_number: int):
        """Return a try of the task, as Airflow has rendered it."""
        task = write(self.run.dag_id)
        task.application_args = [
            f"--pipeline={self.run.dag_id}", f"--batches={','.join(map(str, self.batch_ids))}",
            f"--dag-id={self.run.dag_id}", f"--run-id={self.run.run_id}", "--task-id=write", f"--try-number={try_number}",
        ]  # fmt: skip
        return task

    def verdict(self):
        """Advance, and compare each record with the output and the ledger."""
        with Ledger(self.servers.url, actor="test") as ledger:
            flow.advance(ledger, self.run.dag_id, self.run)
        return verdict(self.servers.url, self.servers.bootstrap, self.output)

    def is_writing(self) -> bool:
        """Return whether a driver has begun to read, and has not begun to publish."""
        standing = self.witness.standing(self.run.dag_id)
        return standing is not None and standing.moment in (Moment.READING, Moment.STAGING)


class Try:
    """A try that runs beside the test, and is waited for."""

    def __init__(self, task) -> None:
        self.task = task
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.task.pre_execute({})
            self.task.execute({})
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        finally:
            self.task._hook._submit_sp.stdout.close()  # Airflow leaves it to the end of the process

    def ended(self) -> BaseException | None:
        """Return the error that it has ended with, or None if it has succeeded."""
        self._thread.join(TASK_S)
        assert not self._thread.is_alive(), "the task has not ended"
        return self.error

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something is true, while the try runs."""
        deadline = time.monotonic() + TASK_S
        while not condition():
            assert self._thread.is_alive(), f"the task has ended before {what}: {self.error}"
            assert time.monotonic() < deadline, f"waited too long for {what}"
            time.sleep(0.02)


@pytest.fixture
def load(crashing, namespace, tmp_path, request):
    made = Load(f"pods_{request.node.name.removeprefix('test_')[:20]}_{os.getpid()}", crashing, tmp_path)
    yield made
    made.witness.close()


def test_a_driver_in_a_pod_loads_each_record_once_and_kubernetes_shows_no_password(load, namespace):
    assert Try(load.task(1)).ended() is None
    assert load.verdict() == ([], 4_000)
    password = urlsplit(load.servers.url).password
    assert password
    shown = json.dumps([one for kind, _, one in namespace.api.objects.events if kind != "secrets"])
    assert "write_batches.py" in shown
    assert password not in shown
    assert namespace.executors() == []


def test_an_executor_that_is_killed_is_replaced_and_nothing_is_lost_or_doubled(load, namespace):
    running = Try(load.task(1))
    running.wait(load.is_writing, "it wrote")
    namespace.pods.kill(namespace.executors()[0])
    assert running.ended() is None
    assert load.verdict() == ([], 4_000)


def test_a_driver_that_is_killed_fails_the_task_and_the_next_try_loads(load, namespace):
    running = Try(load.task(1))
    running.wait(load.is_writing, "it wrote")
    namespace.pods.kill(namespace.drivers()[-1])
    error = running.ended()
    assert isinstance(error, AirflowException)
    assert not isinstance(error, AirflowFailException)
    assert Try(load.task(2)).ended() is None
    assert load.verdict() == ([], 4_000)


def test_a_driver_that_outlives_its_task_is_superseded_by_that_of_the_next_try(load, namespace):
    """As if the machine of Airflow's worker had lost its power: spark-submit is gone, the driver is not, and it is slow."""
    lost = Try(load.task(1))
    lost.wait(load.is_writing, "it wrote")
    old = namespace.drivers()[-1]
    namespace.pods.signal(old, signal.SIGSTOP)
    lost.task._hook._submit_sp.kill()
    assert lost.ended() is not None
    assert Try(load.task(2)).ended() is None
    namespace.pods.signal(old, signal.SIGCONT)
    deadline = time.monotonic() + TASK_S
    while namespace.api.objects.get("pods", old)["status"]["phase"] == "Running":
        assert time.monotonic() < deadline, "the old driver goes on"
        time.sleep(0.1)
    assert namespace.api.objects.get("pods", old)["status"]["phase"] == "Failed"
    assert "was refused: expected to hold the batch, found a newer attempt" in namespace.pods.log(old)
    assert load.verdict() == ([], 4_000)


def test_a_task_that_is_ended_in_airflow_deletes_its_driver(load, namespace):
    ended = Try(load.task(1))
    ended.wait(load.is_writing, "it wrote")
    ended.task.on_kill()
    assert ended.ended() is not None
    assert namespace.api.objects.get("pods", namespace.drivers()[-1]) is None
    assert Try(load.task(2)).ended() is None
    assert load.verdict() == ([], 4_000)


def test_a_mistake_of_the_pipeline_fails_the_task_at_once(load):
    (load.servers.pipelines / load.run.dag_id / "transform.py").write_text("raise ValueError('a mistake')\n")
    assert isinstance(Try(load.task(1)).ended(), AirflowFailException)


def test_the_roles_have_the_rights_that_were_used_and_no_others(namespace):
    """The last test of this file: it looks at what the others have used."""
    assert namespace.api.refused == []
    assert {role: namespace.api.rights[role] - namespace.api.used[role] for role in (SUBMITS, DRIVES)} == {
        SUBMITS: set(),
        DRIVES: set(),
    }
