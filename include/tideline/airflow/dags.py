"""The DAGs without their tasks: schedules, trigger forms, retries, and the texts that Airflow shows."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, AssetOrTimeSchedule, CronDataIntervalTimetable

from tideline.airflow import assets, notifications
from tideline.airflow.params import ingest_params, replay_params
from tideline.declaration.airflow import TAG_OF_EVERY_DAG
from tideline.declaration.pipelines import Broken, Pipeline

_HOURLY: str | None = "0 * * * *"
_START = datetime(2020, 1, 1, tzinfo=UTC)
REPLAY, UPKEEP = "replay", "upkeep"
"""The ids of the DAGs that work for all pipelines."""
_MAX_WAKING_RUNS = 2
"""The most active runs of a pipeline that is woken by records: one writes, the next one plans.

Events that arrive meanwhile are combined into one more run, which starts when one of the two has ended.
"""

_INGEST_DOC = """\
**plan** reserves batches of offsets in the ledger, **write** loads them with Spark, **advance** moves the heads over published batches, and
**announce** emits one asset event for each batch.
Every task may be cleared at any time: a run that is cleared gets the same batches again.

Trigger it with the defaults to load new records. The form also accepts a window of time, ranges of offsets, a batch, or rejected records.
An Airflow backfill loads the offsets of each hour that are not loaded yet. With *Load again* and a reason it also replaces rows that are loaded.

Each batch that this DAG publishes is an event of the asset `{name}`, with its ranges and counts.
"""
_STATEFUL_DOC = """
This pipeline has a state, so past offsets are not loaded by themselves. With *rewind*, a batch and a reason, the pipeline goes back to the end of
that batch, and the same run loads again what came after it.
"""
_BROKEN_DOC = """\
This pipeline's `pipeline.yaml` has mistakes. Trigger the DAG and read the log of `plan`: it lists each mistake with file, line and key.
"""
_REPLAY_DOC = """\
Loads offsets again that are already loaded, and replaces exactly their rows, in one transaction. The heads do not move.

Choose a pipeline and one of: a batch, ranges, or a window of time. Offsets in it that are not loaded yet are loaded as well.
If Kafka no longer holds some of the offsets, the run fails before anything changes.

A failed run of a pipeline needs no replay: clear it, or let the next run of the pipeline finish it.
"""
_UPKEEP_DOC = """\
Once a day, for each pipeline: drops the staging tables of dead attempts, fails attempts whose heartbeat is too old, and deletes history that is
older than the declaration keeps. It never deletes the record of which offsets are loaded. The log of each task lists what it did.
"""


def ingest_dag(declared: Pipeline | Broken) -> DAG:
    """Build the DAG of one pipeline.

    A broken declaration gets an hourly schedule. So its `plan` fails regularly, and the mistake is visible in Airflow.
    """
    if isinstance(declared, Broken):
        return _dag(
            dag_id_of(declared.name),
            "The declaration has mistakes: see the log of `plan`",
            _BROKEN_DOC,
            schedule=_interval(_HOURLY),
            params=ingest_params(),
            tags=[TAG_OF_EVERY_DAG, "broken declaration"],
            default_args=notifications.of_pipeline(declared),
        )
    return _dag(
        declared.name,
        declared.description,
        _INGEST_DOC.format(name=declared.name) + (_STATEFUL_DOC if declared.state else ""),
        schedule=_schedule(declared),
        params=ingest_params(stateful=declared.state is not None),
        tags=[TAG_OF_EVERY_DAG, *declared.tags],
        default_args=_retries(declared.retries, declared.retry_delay_seconds)
        | ({"owner": declared.owner} if declared.owner else {})
        | notifications.of_pipeline(declared),
        **({"max_active_runs": _MAX_WAKING_RUNS} if declared.wake_on_records else {}),
    )


def replay_dag(pipelines: Sequence[Pipeline | Broken]) -> DAG:
    """Build the DAG `replay`, which replaces loaded rows of any of the pipelines."""
    return _dag(
        REPLAY,
        "Load a batch, ranges or a window again, and replace their rows",
        _REPLAY_DOC,
        schedule=None,
        params=replay_params(declared.name for declared in pipelines),
        tags=[TAG_OF_EVERY_DAG, "operations"],
        default_args=_retries(2, 60) | notifications.of_chosen(pipelines),
    )


def upkeep_dag() -> DAG:
    """Build the DAG `upkeep`, which cleans up after all pipelines."""
    return _dag(
        UPKEEP,
        "Clean up: leftovers of dead attempts, stale claims, old history",
        _UPKEEP_DOC,
        schedule=_interval("17 3 * * *"),
        tags=[TAG_OF_EVERY_DAG, "operations"],
        default_args=_retries(2, 300),
    )


def dag_id_of(pipeline_name: str) -> str:
    """Return the DAG id of a pipeline: its name, changed where the name is not a valid or free DAG id.

    A broken declaration needs a DAG as well, and its name may be the mistake.
    """
    name = re.sub(r"[^\w.-]", "_", pipeline_name, flags=re.ASCII)
    return f"{name}_declaration" if name in (REPLAY, UPKEEP) else name


def _dag(dag_id: str, description: str, doc: str, *, schedule: Any, **rest: Any) -> DAG:
    return DAG(
        dag_id=dag_id,
        description=description,
        doc_md=doc,
        schedule=schedule,
        start_date=_START,
        catchup=False,
        **rest,
    )


def _schedule(declared: Pipeline) -> Any:
    interval = _interval(declared.schedule)
    if not declared.wake_on_records:
        return interval
    records = assets.incoming(declared.name)
    return AssetOrTimeSchedule(timetable=interval, assets=[records]) if interval else [records]


def _interval(cron: str | None) -> CronDataIntervalTimetable | None:
    # With a bare cron string, Airflow gives runs a data interval of length zero.
    return CronDataIntervalTimetable(cron, timezone="UTC") if cron else None


def _retries(count: int, delay_seconds: int) -> dict[str, Any]:
    return {"retries": count, "retry_delay": timedelta(seconds=delay_seconds)}
