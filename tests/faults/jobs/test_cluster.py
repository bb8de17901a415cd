"""Load on a real Spark cluster whose executors, workers and master are killed. The machines of its workers have no Tideline that works.

A commit plays one sink. `make test-cluster` plays all of them.
"""

from pathlib import Path

import pytest

from faults.jobs.cluster_load import kill_executor, played
from faults.jobs.order_outputs import Sink
from faults.jobs.struck_load import StruckLoad
from servers.spark_cluster import SparkCluster

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


def import_a_module(load: StruckLoad, folder: Path) -> None:
    """Let the transform import a module that only the driver has."""
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").touch()
    (folder / "shop" / "prices.py").write_text(SHARED)
    transform = load.declared / "transform.py"
    transform.write_text("from shop.prices import PRICE\n" + transform.read_text().replace("PRICE = ", "OWN = "))


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
    variables = {"TIDELINE_SPARK_PROPERTIES": str(cluster.properties()), "PYTHONPATH": str(tmp_path)}
    load = StruckLoad("cluster", crashing, sink, tmp_path, master=cluster.url, variables=variables)
    import_a_module(load, tmp_path)
    played(load, [lambda _: kill_executor(cluster), lambda _: lose_worker(cluster), lambda _: lose_master(cluster)])
