"""Load on a real Spark cluster whose executors, workers and master are killed. The machines of its workers have no Tideline that works.

A commit plays one sink. `make test-cluster` plays all of them.
"""

import os
import time
from collections.abc import Callable
from random import Random

import pytest
from confluent_kafka.admin import AdminClient

from faults.checker import watch
from faults.jobs import order_producer, orders, read_back
from faults.jobs.job_verdict import verdict
from faults.jobs.order_outputs import Output, Sink
from faults.jobs.rounds import TASK_S, Rounds
from faults.jobs.write_progress import Moment, Witness
from given_topics import topics
from servers.spark_cluster import SparkCluster

RECORDS, PARTITIONS = 9_000, 3
LIMITS = {"batch_records": 3000, "run_batches": 3, "split_records": 500}
TRANSFORMS = {Sink.UPSERT: "frame", Sink.FOLDED: "processor"}
REDRIVEN = "SELECT state FROM tideline.batch WHERE pipeline = %s AND kind = 'redrive'"
SHARED = """\
import pyarrow as pa

PRICE = pa.decimal128(14, 4)
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sink" in metafunc.fixturenames:
        metafunc.parametrize("sink", list(Sink) if metafunc.config.getoption("--soak") else [Sink.APPEND])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with SparkCluster(tmp_path_factory.mktemp("cluster")).running() as running:
        yield running


class Play:
    """A pipeline that is loaded on the cluster, and strikes at it while it loads."""

    def __init__(self, crashing, cluster: SparkCluster, sink: Sink, folder) -> None:
        self.crashing, self.cluster = crashing, cluster
        self.name = f"cluster_{sink.name.lower()}_{os.getpid()}"
        self.output = Output(pipeline=self.name, sink=sink, lakes=crashing.folder / "lakes")
        self.strikes_left = 3
        topics.created(AdminClient({"bootstrap.servers": crashing.bootstrap}), self.name, partitions=PARTITIONS)
        read_back.create_topics(self.output, crashing.bootstrap)
        self.fill()
        declared = crashing.pipelines / self.name
        orders.declare(declared, self.name, self.output, transform=TRANSFORMS.get(sink, "records"), limits=LIMITS)
        self._import_a_module(declared, folder)
        variables = {"TIDELINE_SPARK_PROPERTIES": str(cluster.properties()), "PYTHONPATH": str(folder)}
        self.rounds = Rounds(
            self.name,
            variables=crashing.variables() | variables,
            logs=folder / "logs",
            master=cluster.url,
            refill=self._refill,
        )

    def fill(self) -> None:
        """Send more records."""
        sent = orders.records(Random(self.strikes_left), RECORDS)
        order_producer.fill(self.crashing.bootstrap, self.name, sent, PARTITIONS)

    def _import_a_module(self, declared, folder) -> None:
        """Let the transform import a module that only the driver has."""
        (folder / "shop").mkdir()
        (folder / "shop" / "__init__.py").touch()
        (folder / "shop" / "prices.py").write_text(SHARED)
        transform = declared / "transform.py"
        transform.write_text("from shop.prices import PRICE\n" + transform.read_text().replace("PRICE = ", "OWN = "))

    def _refill(self) -> bool:
        if self.strikes_left:
            self.fill()
        return bool(self.strikes_left)

    def strike(self, witness: Witness, blow: Callable[[], bool]) -> None:
        """Strike while records are read or staged, when there is something to hit."""
        deadline = time.monotonic() + TASK_S
        while not (self._is_loading(witness) and blow()):
            self.rounds.check()
            assert time.monotonic() < deadline, "nothing was found to strike"
            time.sleep(0.02)
        self.strikes_left -= 1

    def _is_loading(self, witness: Witness) -> bool:
        standing = witness.standing(self.name)
        return standing is not None and standing.moment in (Moment.READING, Moment.STAGING)


def kill_executor(cluster: SparkCluster) -> bool:
    """Kill an executor while both workers run tasks, so that the load goes on at the other one."""
    running = [cluster.busy_executors(name) for name in cluster.workers]
    if not all(running):
        return False
    running[0][0].kill()
    return True


def lose_worker(cluster: SparkCluster) -> bool:
    """Kill a worker with its executor, which runs tasks, and start the worker again."""
    name = cluster.workers[1]
    if not cluster.busy_executors(name):
        return False
    cluster.kill(name)
    cluster.start(name)
    return True


def lose_master(cluster: SparkCluster) -> bool:
    """Kill the master while executors run tasks, and start it again."""
    if not any(map(cluster.busy_executors, cluster.workers)):
        return False
    cluster.kill("master")
    cluster.start("master")
    return True


def test_executors_with_another_version_run_the_code_of_the_driver_and_what_dies_loses_and_doubles_nothing(
    crashing, cluster, sink, tmp_path, monkeypatch
):
    for name, value in crashing.variables().items():
        monkeypatch.setenv(name, value)
    play, witness = Play(crashing, cluster, sink, tmp_path), Witness(crashing.url)
    try:
        play.rounds.start()
        with watch(crashing.url, play.name, play.output.watched, every=0.5) as watched:
            for blow in (kill_executor, lose_worker, lose_master):
                play.strike(witness, lambda: blow(cluster))  # noqa: B023 - called before the next turn
            play.rounds.finish(2 * TASK_S)
            if sink is not Sink.FOLDED:  # what was folded is never decoded again
                play.rounds.redrive()
                assert witness.rows(REDRIVEN, play.name) == [("advanced",)]
        broken, n_records = verdict(crashing.url, crashing.bootstrap, play.output)
    finally:
        play.rounds.stop()
        witness.close()
    assert [*watched.violations, *broken] == []
    assert n_records >= RECORDS
