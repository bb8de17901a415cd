"""Start one real stack for tests: Airflow with the project's DAG files, Kafka, Postgres, and Spark as Airflow starts it."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import metrics_token
import notifications
from secret_scan import Scan, look_for
from system import System
from tideline.deployment import secret
from tideline.settings import PROJECT
from tideline_stack.airflow_processes import AirflowOptions, fernet_key
from tideline_stack.airflow_user import AirflowUser
from tideline_stack.stack import Stack

SETTINGS = {
    # Otherwise Airflow takes minutes to notice a task whose supervisor was killed.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "1",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
    # Airflow's default: the local stack looks for work four times a second for people, which takes a sixth of a processor.
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
}


@contextmanager
def running(folder: Path, *, settings: Mapping[str, str]) -> Iterator[System]:
    """Start a stack with an empty ledger, to be used from the thread that started it. At its end, search both databases for secrets.

    Args:
        folder: The folder of all its data. Pipelines below `pipelines` are seen earlier if they are declared before.
        settings: AIRFLOW__SECTION__KEY variables in addition to those of this folder.
    """
    home = folder / "stack" / "airflow"
    look_for(fernet_key(home))
    (home / "config").mkdir()  # Airflow imports its local settings from there
    shutil.copy(Path(__file__).with_name("airflow_local_settings.py"), home / "config")
    airflow = AirflowOptions(dags=PROJECT / "dags", plugins=PROJECT / "plugins", settings=SETTINGS | dict(settings))
    with Stack(
        folder / "stack",
        airflow=airflow,
        registry=True,
        variables={
            "TIDELINE_PIPELINES": str(folder / "pipelines"),
            "TIDELINE_METRICS_TOKEN": metrics_token.TOKEN,
            notifications.SECRET: secret.marked("-a-token-of-the-tests-"),
        },
    ) as stack:
        environment = stack.environment()
        assert stack.orchestrator is not None  # it has the options of one
        with AirflowUser(
            environment["TIDELINE_AIRFLOW_URL"],
            environment["TIDELINE_AIRFLOW_USERNAME"],
            environment["TIDELINE_AIRFLOW_PASSWORD"],
        ) as api:
            system = System(
                folder=folder,
                stack=stack,
                bootstrap=environment["TIDELINE_KAFKA"],
                url=stack.postgres.url("warehouse"),
                environment=stack.orchestrator.environment() | environment,
                airflow=api,
            )
            yield system
        databases = [stack.postgres.url(name) for name in ("warehouse", "airflow")]
        assert [found for url in databases for found in Scan().database(url)] == []
