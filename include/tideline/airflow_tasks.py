"""The tasks of the DAGs: what a DAG run says becomes arguments of a verb, and an error becomes retry or failure.

Only ids travel by XCom. No secret is on a command line or in a rendered template: tasks and the Spark driver read them from the environment.
"""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import AssetAlias, get_current_context, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from tideline import airflow_assets, flow, pipelines, settings, trigger_form
from tideline.airflow_dags import name_of
from tideline.errors import FatalError, NeedsOperatorError
from tideline.kafka import Broker
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline.pipelines import Broken, Pipeline
from tideline.trigger_form import Asked, Triggered

log = logging.getLogger(__name__)

_LASTING = re.compile(rf"Error code is: ({FatalError.exit_code}|{NeedsOperatorError.exit_code})\b")
# Rendered by Airflow when a task of the DAG `replay` begins.
_CHOSEN = "{{ params.pipeline }}"


def ingest(declared: Pipeline | Broken) -> None:
    """The tasks of a pipeline's own DAG."""
    outlet = airflow_assets.batches(f"{declared.name} batches")
    plan(declared.name) >> write(declared.name) >> _advancing(outlet)(declared.name)


def replay() -> None:
    """The same three for the pipeline that the form names."""
    outlet = airflow_assets.batches(airflow_assets.REPLAYED)
    plan_replay(_CHOSEN) >> write(_CHOSEN) >> _advancing(outlet)(_CHOSEN)


def upkeep(declared: Pipeline | Broken) -> None:
    """The one task in which a pipeline is tidied up; that of a broken declaration fails, and the others run."""
    keep_up.override(task_id=name_of(declared))(declared.name)


@task(task_id="plan")
def plan(pipeline_name: str) -> list[int]:
    """Reserve what the run asks for and return the batches; skips the run when there is nothing to do."""
    return _plan(pipeline_name, trigger_form.ingest)


@task(task_id="plan")
def plan_replay(pipeline_name: str) -> list[int]:
    """Reserve what is to be replayed and return the batches."""
    return _plan(pipeline_name, trigger_form.replay)


def _plan(pipeline_name: str, read_form: Callable[[Triggered], Asked]) -> list[int]:
    context = get_current_context()
    with _failing_for_people():
        asked = read_form(_triggered(context))
        pipeline = pipelines.load_named(pipeline_name)
        broker = Broker(pipeline.source)
        with _ledger(context) as ledger:
            planned = flow.plan(ledger, broker, pipeline, _run(context), asked.request, reason=asked.reason)
            for line in [*flow.describe(ledger, planned.batch_ids), *planned.notes]:
                log.info("%s: %s", pipeline_name, line)
    if not planned.batch_ids:
        nothing = "; ".join([f"{pipeline_name}: nothing to load", *planned.notes])
        log.info(nothing)  # Airflow's own line does not say why
        raise AirflowSkipException(nothing)
    return planned.batch_ids


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


def _advancing(outlet: AssetAlias) -> Any:
    """The task `advance` of one DAG. The alias is an inlet as well: that is how a task may see which events there are."""
    return advance.override(inlets=[outlet], outlets=[outlet])


@task(task_id="advance")
def advance(pipeline_name: str) -> None:
    """Move the heads over what is published, fail unless every batch of this run is through, and tell who waits for the pipeline's asset."""
    context = get_current_context()
    with _failing_for_people(), _ledger(context) as ledger:
        pipeline = pipelines.load_named(pipeline_name)
        try:
            advanced = flow.advance(ledger, pipeline_name, _run(context))
        finally:  # also where a stopped stream fails the run: the others have moved
            _show_heads(ledger, pipeline)
        log.info(
            "%s: heads moved over batches %s",
            pipeline_name,
            ", ".join(map(str, advanced)) or "none: they had moved before",
        )
        published = flow.published_by(ledger, pipeline_name, _run(context))
        told = airflow_assets.announce(context, pipeline_name, published)
        if pipeline.wake_on_records and flow.is_behind(ledger, Broker(pipeline.source), pipeline_name):
            airflow_assets.wake(context, pipeline_name)
            log.info("%s: there are more records than this run has loaded: one more run is asked for", pipeline_name)
    log.info("%s: asset events for batches %s", pipeline_name, ", ".join(map(str, told)) or "none")


@task
def keep_up(pipeline_name: str) -> None:
    """Tidy up after one pipeline, and log each thing that was done."""
    with _failing_for_people(), _ledger(get_current_context()) as ledger:
        for line in flow.upkeep(ledger, pipelines.load_named(pipeline_name)) or [f"{pipeline_name}: nothing to do"]:
            log.info(line)


def _show_heads(ledger: Ledger, pipeline: Pipeline) -> None:
    try:
        flow.show_heads(ledger, Broker(pipeline.source), pipeline.name)
    except Exception:  # a courtesy to tools that nobody depends on must never fail a load that is through
        log.warning("%s: the heads are not in its consumer group", pipeline.name, exc_info=True)


def _triggered(context: Any) -> Triggered:
    """The run in plain values. Airflow's moments are pendulum's, which refuse to be divided by a timedelta."""
    run = context["dag_run"]
    interval = None
    if context.get("data_interval_start") and context.get("data_interval_end"):
        start, end = (datetime.fromisoformat(context[f"data_interval_{edge}"].isoformat()) for edge in ("start", "end"))
        interval = (start, end)
    return Triggered(
        run_type=run.run_type.value, params=dict(context["params"]), conf_keys=run.conf or {}, interval=interval
    )


def _run(context: Any) -> Run:
    return Run(dag_id=context["ti"].dag_id, run_id=context["run_id"])


@contextmanager
def _ledger(context: Any) -> Iterator[Ledger]:
    ti = context["ti"]
    with Ledger(settings.ledger_url(), actor=f"{ti.dag_id} {ti.run_id} {ti.task_id} try {ti.try_number}") as ledger:
        yield ledger


@contextmanager
def _failing_for_people() -> Iterator[None]:
    """What another try cannot change fails at once; everything else is retried as declared."""
    try:
        yield
    except (FatalError, NeedsOperatorError) as error:
        raise AirflowFailException(str(error)) from error
