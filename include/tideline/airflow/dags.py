"""The DAGs without their tasks: when they run, what their forms ask, and what Airflow shows about them."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, AssetOrTimeSchedule, CronDataIntervalTimetable, get_parsing_context

from tideline.airflow import assets
from tideline.airflow.params import ingest_params, replay_params
from tideline.declaration import pipelines
from tideline.declaration.pipelines import Broken, Pipeline

_HOURLY: str | None = "0 * * * *"
_START = datetime(2020, 1, 1, tzinfo=UTC)
_OWN = ("replay", "upkeep")
_WAKING_RUNS = 2
"""Of a pipeline that new records wake: one run writes, the next is planned; events that come meanwhile become one more run when there is room."""

_INGEST_DOC = """\
**plan** reserves batches of offsets in the ledger, **write** loads them with Spark, **advance** moves the heads over what is published, and
**announce** makes an event of each batch.
Each may be cleared at any time, by anybody: a run that is cleared gets the same batches again.

Trigger it without changing anything to load what is new. The form also takes a window of time, ranges of offsets, a batch, or rejected records.
An Airflow backfill fills in what of each hour is missing; with *Load again* and a reason it replaces what is there.

A batch that this DAG has published is an event of the asset `{name}`, with its ranges and counts.
"""
_BROKEN_DOC = """\
This pipeline's `pipeline.yaml` has mistakes. Trigger the DAG and look at the log of `plan`: it names each of them with file, line and key.
"""
_REPLAY_DOC = """\
Loads something once more that is loaded already, and replaces exactly the rows of those offsets, in one transaction. The heads stay where they are.

Choose a pipeline and one of the three: a batch, ranges, or a window of time. Offsets that nobody has loaded yet are loaded as well.
Offsets that Kafka no longer holds are refused before anything changes.

A run of a pipeline that failed needs no replay: clear it, or let the next run of the pipeline finish it.
"""
_UPKEEP_DOC = """\
Once a day, for each pipeline: drops what dead attempts have put aside, gives up claims that nobody holds any more, and deletes history that is older
than the declaration keeps. Never what says which offsets are loaded. The log of each task says what it did.
"""


def parsed_now() -> list[Pipeline | Broken]:
    """Return the pipelines whose DAGs Airflow asks for: all of them, but only its own where a task is about to run.

    Each task parses its DAG file anew. With hundreds of declarations that would cost it more than its work.
    """
    dag_id = get_parsing_context().dag_id
    return pipelines.declared(chosen=lambda name: dag_id is None or _dag_id(name) == dag_id)


def ingest_dag(declared: Pipeline | Broken) -> DAG:
    """The DAG of one pipeline. A broken declaration keeps an hourly schedule, so that its `plan` fails where people look."""
    if isinstance(declared, Broken):
        return _dag(
            name_of(declared),
            "The declaration has mistakes: see the log of `plan`",
            _BROKEN_DOC,
            schedule=_interval(_HOURLY),
            params=ingest_params(),
            tags=["tideline", "broken declaration"],
        )
    return _dag(
        declared.name,
        declared.description,
        _INGEST_DOC.format(name=declared.name),
        schedule=_schedule(declared),
        params=ingest_params(),
        tags=["tideline"],
        default_args=_retries(declared.retries, declared.retry_delay_seconds),
        **({"max_active_runs": _WAKING_RUNS} if declared.wake_on_records else {}),
    )


def replay_dag(pipelines: Iterable[Pipeline | Broken]) -> DAG:
    """The DAG that replaces what any of the pipelines has loaded."""
    return _dag(
        "replay",
        "Load a batch, ranges or a window again, and replace what is there",
        _REPLAY_DOC,
        schedule=None,
        params=replay_params(declared.name for declared in pipelines),
        tags=["tideline", "operations"],
        default_args=_retries(2, 60),
    )


def upkeep_dag() -> DAG:
    """The DAG that tidies up after all of the pipelines."""
    return _dag(
        "upkeep",
        "Tidy up: leftovers of dead attempts, stale claims, old history",
        _UPKEEP_DOC,
        schedule=_interval("17 3 * * *"),
        tags=["tideline", "operations"],
        default_args=_retries(2, 300),
    )


def name_of(declared: Pipeline | Broken) -> str:
    """The id under which Airflow knows a pipeline: its name, where that can be one. The name itself may be the mistake in a declaration."""
    return _dag_id(declared.name)


def _dag_id(folder_name: str) -> str:
    name = re.sub(r"[^\w.-]", "_", folder_name, flags=re.ASCII)
    return f"{name}_declaration" if name in _OWN else name


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
    # A bare cron string gives runs an interval of no length.
    return CronDataIntervalTimetable(cron, timezone="UTC") if cron else None


def _retries(count: int, delay_seconds: int) -> dict[str, Any]:
    return {"retries": count, "retry_delay": timedelta(seconds=delay_seconds)}
