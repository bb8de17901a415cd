"""One real stack for all tests here."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import declared_pipelines
import metrics_token
import notifications
import secured_login
import start_stack
import statsd_packets
from killed_run import Killed, load_in_spite_of_kills
from loaded_runs import Announced, Loaded, load_impressions, publish_announced
from statsd_packets import Packets
from system import CLOSED, System
from tideline.settings import PROJECT

# In addition to the project's DAGs there are foreign ones, which wait for a pipeline's asset.
_LOCAL = "airflow.dag_processing.bundles.local.LocalDagBundle"
BUNDLES = [
    {"name": "dags-folder", "classpath": _LOCAL, "kwargs": {}},
    {"name": "downstream", "classpath": _LOCAL, "kwargs": {"path": str(Path(__file__).with_name("dags"))}},
]
SETTINGS = {
    "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(BUNDLES),
    # All pipelines are declared before Airflow starts, and each parsing of a DAG file is a process that imports everything. So Airflow parses once,
    # and again where a test requests it.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "86400",
}


@pytest.fixture(scope="session")
def packets() -> Iterator[Packets]:
    """Receive what Airflow's metrics send."""
    with statsd_packets.receiving() as received:
        yield received


@pytest.fixture(scope="session")
def system(tmp_path_factory, packets) -> Iterator[System]:
    """Start the stack with an empty ledger."""
    folder = tmp_path_factory.mktemp("e2e")
    declared_pipelines.declare_all(folder / "pipelines")
    notifications.install(folder / "plugins")
    shutil.copy(PROJECT / "plugins" / "tideline_plugin.py", folder / "plugins")
    plugins = {"AIRFLOW__CORE__PLUGINS_FOLDER": str(folder / "plugins")}
    settings = SETTINGS | plugins | metrics_token.USERS | packets.settings | secured_login.settings(folder)
    with start_stack.running(folder, settings=settings) as running:
        secured_login.write(folder, running.stack.broker)
        running.pool(CLOSED, slots=0)
        yield running


@pytest.fixture(scope="session")
def loaded(system) -> Loaded:
    """Load impressions of 18 partitions, malformed ones among them, with one run of the DAG."""
    return load_impressions(system)


@pytest.fixture(scope="session")
def killed(system) -> Killed:
    """Load a batch whose writers are killed."""
    return load_in_spite_of_kills(system)


@pytest.fixture(scope="session")
def announced(system) -> Announced:
    """Load three batches with one run, and a DAG that waits for them."""
    return publish_announced(system)
