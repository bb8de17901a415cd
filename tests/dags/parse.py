"""Parse the DAG files of a folder and print what came out as JSON. A program of its own, so that no connection and no warning escapes it."""

import json
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

import confluent_kafka.admin
import psycopg2
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import CronDataIntervalTimetable


def refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a DAG file connects to something when it is parsed")


def described(dag: Any) -> dict[str, Any]:
    is_cron = isinstance(dag.timetable, CronDataIntervalTimetable)
    return {
        "schedule": dag.timetable.expression if is_cron else dag.schedule,
        "with_interval": is_cron,
        "description": dag.description,
        "tags": sorted(dag.tags),
        "catchup": dag.catchup,
        "params": sorted(dag.params),
        "tasks": {
            task.task_id: {
                "then": sorted(task.downstream_task_ids),
                "retries": task.retries,
                "retry_delay_seconds": task.retry_delay.total_seconds(),
                "at_once": task.max_active_tis_per_dag,
            }
            for task in dag.tasks
        },
    }


def main(folder: Path) -> None:
    socket.socket.connect = refuse  # type: ignore[method-assign]  # that is the trap
    # These two connect by their own C code.
    psycopg2.connect = refuse
    confluent_kafka.admin.AdminClient = refuse
    bag = DagBag(folder, bundle_path=folder, bundle_name="dags", safe_mode=True)
    found = {
        "dags": {dag_id: described(dag) for dag_id, dag in bag.dags.items()},
        "errors": bag.import_errors,
        "warnings": bag.captured_warnings,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
