"""Parse the DAG files of a folder and print the result as JSON. It is a program of its own, so that no connection and no warning is overlooked."""

import json
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

import confluent_kafka.admin
import psycopg2
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import AssetOrTimeSchedule, CronDataIntervalTimetable
from airflow.sdk.definitions._internal.types import is_arg_set
from airflow.serialization.serialized_objects import DagSerialization


def refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a DAG file connects to something when it is parsed")


def described(dag: Any) -> dict[str, Any]:
    timetable = dag.timetable.timetable if isinstance(dag.timetable, AssetOrTimeSchedule) else dag.timetable
    is_cron = isinstance(timetable, CronDataIntervalTimetable)
    condition = getattr(dag.timetable, "asset_condition", None)
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))  # as the scheduler receives it
    return {
        "backfillable": stored.timetable.periodic,
        "schedule": timetable.expression if is_cron else None,
        "with_interval": is_cron,
        "assets": [watched(asset) for asset in condition.objects] if condition else [],
        "description": dag.description,
        "doc": dag.doc_md,
        "tags": sorted(dag.tags),
        "catchup": dag.catchup,
        "runs_at_once": dag.max_active_runs,
        "params": {name: field(dag.params.get_param(name)) for name in dag.params},
        "tasks": {
            task.task_id: {
                "then": sorted(task.downstream_task_ids),
                "retries": task.retries,
                "retry_delay_seconds": task.retry_delay.total_seconds(),
                "at_once": task.max_active_tis_per_dag,
                "trigger_rule": task.trigger_rule.value,
                "inlets": [inlet.name for inlet in task.inlets],
                "outlets": [type(outlet).__name__ for outlet in task.outlets],
                "owner": task.owner,
                "pool": task.pool,
                "notifies": len(task.on_failure_callback),
                "arguments": getattr(task, "application_args", None) or list(task.op_args),
            }
            for task in dag.tasks
        },
    }


def watched(asset: Any) -> dict[str, Any]:
    return {
        "name": asset.name,
        "uri": asset.uri,
        "triggers": [watcher.trigger.serialize() for watcher in asset.watchers],
    }


def field(param: Any) -> dict[str, Any]:
    """Describe one field of the trigger form, with its default if it has one."""
    schema: dict[str, Any] = param.schema
    return ({"default": param.value} if is_arg_set(param.value) else {}) | schema


def main(folder: Path) -> None:
    socket.socket.connect = refuse  # type: ignore[method-assign]  # any connection raises
    # These two connect in C code, without Python's socket.
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
