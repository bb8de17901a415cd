"""One real stack for all tests here: Airflow with the project's DAG files, Kafka, Postgres, and Spark as Airflow starts it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import declaring
from loaded import Loaded, load_impressions
from system import System
from tideline.airflow_api import AirflowApi
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline.local.orchestrator import AirflowOptions
from tideline.local.stack import Stack
from tideline.settings import PROJECT

# A task whose supervisor was killed is found out after minutes otherwise.
QUICK_TO_NOTICE = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "1",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
}
# Beside the project's DAGs those of somebody else, who waits for a pipeline's asset.
_LOCAL = "airflow.dag_processing.bundles.local.LocalDagBundle"
BUNDLES = [
    {"name": "dags-folder", "classpath": _LOCAL, "kwargs": {}},
    {"name": "downstream", "classpath": _LOCAL, "kwargs": {"path": str(Path(__file__).with_name("dags"))}},
]
MORE_DAGS = {"AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(BUNDLES)}
QUICK_TO_COMPACT = {"log.cleaner.backoff.ms": "200"}


@pytest.fixture(scope="session")
def system(tmp_path_factory) -> Iterator[System]:
    """The running stack with an empty ledger."""
    folder = tmp_path_factory.mktemp("e2e")
    pipelines = folder / "pipelines"
    declaring.declare_all(pipelines)
    airflow = AirflowOptions(dags=PROJECT / "dags", plugins=PROJECT / "plugins", settings=QUICK_TO_NOTICE | MORE_DAGS)
    with Stack(
        folder / "stack",
        airflow=airflow,
        broker_properties=QUICK_TO_COMPACT,
        variables={"TIDELINE_PIPELINES": str(pipelines)},
    ) as stack:
        environment = stack.environment()
        with Ledger(environment["TIDELINE_LEDGER_URL"], actor="test") as ledger:
            migrate(ledger)
        with AirflowApi(
            environment["TIDELINE_AIRFLOW_URL"],
            environment["TIDELINE_AIRFLOW_USERNAME"],
            environment["TIDELINE_AIRFLOW_PASSWORD"],
        ) as airflow:
            yield System(
                folder=folder,
                bootstrap=environment["TIDELINE_KAFKA"],
                url=environment["TIDELINE_LEDGER_URL"],
                environment=stack.orchestrator.environment() | environment,
                airflow=airflow,
            )


@pytest.fixture(scope="session")
def loaded(system) -> Loaded:
    """Impressions of 18 partitions, malformed ones among them, after one run of the DAG."""
    return load_impressions(system)
