"""The only module that imports Airflow: what a DAG run says becomes arguments of a verb, and an error becomes retry or failure.

Only ids travel by XCom. No secret is on a command line or in a rendered template: tasks and the Spark driver read them from the environment.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, CronDataIntervalTimetable, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from tideline import flow, pipelines, settings
from tideline.errors import FatalError, NeedsOperatorError
from tideline.kafka import Broker
from tideline.ledger import attempts
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline.pipelines import Broken, Pipeline

log = logging.getLogger(__name__)

PARAMS = {
    "until": Param(
        None,
        type=["null", "string"],
        format="date-time",
        title="Load records up to",
        description_md="Records with this timestamp or a later one stay for the next run. Empty: all that is there now.",
    )
}
_LASTING = re.compile(rf"Error code is: ({FatalError.exit_code}|{NeedsOperatorError.exit_code})\b")
_HOURLY: str | None = "0 * * * *"


def ingest_dag(declared: Pipeline | Broken) -> DAG:
    """The DAG of one pipeline, without its tasks. A broken declaration keeps an hourly schedule, so that its `plan` fails where people look."""
    if isinstance(declared, Broken):
        schedule, retries, delay = _HOURLY, 0, 0
        description, tags = "The declaration has mistakes: see the log of `plan`", ["tideline", "broken declaration"]
    else:
        schedule, retries, delay = declared.schedule, declared.retries, declared.retry_delay_seconds
        description, tags = declared.description, ["tideline"]
    return DAG(
        dag_id=declared.name,
        description=description,
        schedule=CronDataIntervalTimetable(schedule, timezone="UTC") if schedule else None,
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        params=PARAMS,
        tags=tags,
        default_args={"retries": retries, "retry_delay": timedelta(seconds=delay)},
    )


@task(task_id="plan")
def plan(pipeline_name: str) -> list[int]:
    """Reserve this run's batches and return their ids; skips the run when there is nothing to do."""
    context = get_current_context()
    with _failing_for_people(), _ledger(context) as ledger:
        pipeline = pipelines.load_named(pipeline_name)
        until = _until(context)
        batch_ids = flow.plan(ledger, Broker(pipeline.source), pipeline, _run(context), until=until)
        with ledger.transaction():
            for batch_id in batch_ids:
                log.info(
                    "%s batch %s: %s", pipeline_name, batch_id, ", ".join(map(str, attempts.ranges(ledger, batch_id)))
                )
    if not batch_ids:
        nothing = f"{pipeline_name}: nothing to load" + (f" before {until:%Y-%m-%d %H:%M:%S %Z}" if until else "")
        log.info(nothing)  # Airflow's own line does not say why
        raise AirflowSkipException(nothing)
    return batch_ids


class WriteBatches(SparkSubmitOperator):  # type: ignore[misc]  # Airflow is not followed: the class has no type here
    """spark-submit, which knows only one kind of failure; the job's exit code tells what another try cannot change."""

    def execute(self, context: Any) -> None:
        """Run the job; a declaration, a transform or a table that is wrong fails the task at once, without its retries."""
        try:
            super().execute(context)
        except AirflowException as error:
            if _LASTING.search(str(error)):
                raise AirflowFailException(str(error)) from error
            raise


def write(pipeline_name: str) -> WriteBatches:
    """Write the batches that `plan` returned. Jars and JVM options are the deployment's, in its Spark properties."""
    return WriteBatches(
        task_id="write",
        name=f"tideline-{pipeline_name}",
        properties_file=settings.spark_properties(),
        application=str(settings.PROJECT / "spark_jobs" / "write_batches.py"),
        application_args=[
            f"--pipeline={pipeline_name}",
            "--batches={{ ti.xcom_pull(task_ids='plan') | join(',') }}",
            "--dag-id={{ ti.dag_id }}",
            "--run-id={{ run_id }}",
            "--task-id={{ ti.task_id }}",
            "--try-number={{ ti.try_number }}",
        ],
        # Two runs take turns, for economy only: the second one finds most of the work done.
        max_active_tis_per_dag=1,
    )


@task(task_id="advance")
def advance(pipeline_name: str) -> None:
    """Move the heads over what is published, and fail unless every batch of this run is through."""
    context = get_current_context()
    with _failing_for_people(), _ledger(context) as ledger:
        advanced = flow.advance(ledger, pipeline_name, _run(context))
        log.info(
            "%s: heads moved over batches %s",
            pipeline_name,
            ", ".join(map(str, advanced)) or "none: they had moved before",
        )


def _run(context: Any) -> Run:
    return Run(dag_id=context["ti"].dag_id, run_id=context["run_id"])


@contextmanager
def _ledger(context: Any) -> Iterator[Ledger]:
    ti = context["ti"]
    with Ledger(settings.ledger_url(), actor=f"{ti.dag_id} {ti.run_id} {ti.task_id} try {ti.try_number}") as ledger:
        yield ledger


def _until(context: Any) -> datetime | None:
    """Scheduled runs and backfills end with their interval; others where the trigger says, or now.

    Raises:
        FatalError: The run's conf has a key that nobody reads, which may be a misspelt wish.
    """
    run = context["dag_run"]
    conf = run.conf or {}
    if unknown := set(conf) - set(PARAMS):
        raise FatalError(
            f"unknown conf {', '.join(sorted(unknown))}; known: {', '.join(PARAMS)}",
            next_step="correct the conf and trigger the run again",
        )
    if run.run_type in {"scheduled", "backfill"}:
        if conf.get("until"):
            raise FatalError(
                "`until` is for runs that are triggered by hand: this one ends with its data interval",
                next_step="trigger it without `until`",
            )
        # Airflow's is a pendulum.DateTime: the difference of two of them refuses to be divided by a timedelta.
        return datetime.fromisoformat(context["data_interval_end"].isoformat())
    until = context["params"]["until"]
    moment = datetime.fromisoformat(until) if until else None
    if moment is not None and moment.tzinfo is None:
        raise FatalError(
            f"`until` has no zone: {until}", next_step=f"say which moment it means, such as {until}Z for UTC"
        )
    return moment


@contextmanager
def _failing_for_people() -> Iterator[None]:
    """What another try cannot change fails at once; everything else is retried as declared."""
    try:
        yield
    except (FatalError, NeedsOperatorError) as error:
        raise AirflowFailException(str(error)) from error
