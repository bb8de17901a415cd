"""The task `write`: it runs the Spark job with the connection and the properties that the pipeline declares."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from tideline import environment, flow, settings
from tideline.airflow import task_log
from tideline.airflow.links import BatchesLink
from tideline.airflow.permanent_errors import permanent_errors_fail_at_once
from tideline.declaration import pipelines
from tideline.declaration.pipelines import Pipeline
from tideline.errors import FatalError, NeedsOperatorError
from tideline.ledger.reservations import Run

# On Kubernetes spark-submit ends well although the driver's pod has failed, and the second text has the exit code of the pod.
_PERMANENT_EXIT = re.compile(
    rf"(?:Error code|Kubernetes spark exit code) is: ({FatalError.exit_code}|{NeedsOperatorError.exit_code})\b"
)
_WRITE_MARGIN = timedelta(minutes=15)
"""Time for the work before the first claim and after the last publish. The task's timeout ends a job that did not end itself."""


class WriteBatches(SparkSubmitOperator):  # type: ignore[misc]  # mypy does not follow Airflow: the class is untyped here
    """Runs spark-submit. Airflow's operator retries every failure; this one does not retry exit codes of errors that a retry cannot fix."""

    operator_extra_links = (BatchesLink(),)

    _secrets: Mapping[str, str] = MappingProxyType({})
    """What the job looks up: what each variable holds, by name."""

    def pre_execute(self, context: Any) -> None:
        """Set the task's timeout, its Spark connection and its Spark properties, as its pipeline declares them.

        Batches and pipeline are known only from the rendered arguments: in the DAG `replay` the form names the pipeline.
        """
        super().pre_execute(context)
        given = _given(self.application_args)
        with permanent_errors_fail_at_once():
            task_log.begin(given["pipeline"])
            task_log.about(_batches(given))
            if not _batches(given):
                raise flow.none_given(given["pipeline"], Run(dag_id=given["dag-id"], run_id=given["run-id"]))
            pipeline = pipelines.load_named(given["pipeline"])
            self._use_spark_of(pipeline)
            self._secrets = settings.secrets_of_driver() | pipeline.variables()
        # One timeout more, because the job waits for a batch that another run is writing.
        minutes = (len(_batches(given)) + 1) * pipeline.limits.timeout_minutes
        self.execution_timeout = timedelta(minutes=minutes) + _WRITE_MARGIN

    def _use_spark_of(self, pipeline: Pipeline) -> None:
        declared = pipeline.spark
        if declared.connection is not None:
            _require_connection(pipeline.name, declared.connection)
            self._conn_id = declared.connection
        if declared.properties:
            self.conf = declared.conf()  # after Airflow has rendered its templates, so a property is never one

    def execute(self, context: Any) -> None:
        """Run the job. Fail the task without retries if the declaration, the transform or the table is wrong, or an operator must decide.

        Secrets that only Airflow keeps go into the job's environment. The operator's argument `env_vars` would do so too, but Airflow stores
        it as a rendered template, and puts it on the command line where Spark runs on YARN or Kubernetes.
        """
        # A driver that outlives this try, where it is no process of this machine, is superseded by that of the next one: the ledger fences it.
        self.durable = False
        try:
            as_driver, with_secrets = settings.as_driver(), environment.handed_to_programs(self._secrets)
            with permanent_errors_fail_at_once(), as_driver, with_secrets:
                super().execute(context)
        except AirflowException as error:
            if self._hook is not None and (pod := self._hook._kubernetes_driver_pod):  # noqa: SLF001 - it is not public
                space = self._hook._connection["namespace"]  # noqa: SLF001
                self.log.warning(
                    "The driver was a pod. To read what it said: kubectl logs --namespace %s %s", space, pod
                )
            if _PERMANENT_EXIT.search(str(error)):
                raise AirflowFailException(str(error)) from error
            raise

    def _get_hook(self) -> Any:
        """Return Airflow's hook. It logs the job's output; lines that are JSON get their own fields there."""
        hook = super()._get_hook()
        hook._log = task_log.with_lines_of_job(hook.log)  # noqa: SLF001 - the hook has no other place for its log
        if hook._is_kubernetes and hook._connection["deploy_mode"] == "cluster":  # noqa: SLF001 - nor for these two
            # The file is in the pod's image. Without this, spark-submit would upload the one that is here.
            self.application = f"local://{_job()}"
        return hook

    def get_openlineage_facets_on_start(self) -> Any:
        """Return where the data comes from and goes to. Airflow's OpenLineage provider calls this, where it is installed."""
        return _lineage(self.application_args)

    def get_openlineage_facets_on_complete(self, _task_instance: Any) -> Any:
        """Return the same with the ranges and counts of the batches that are published, also if others have failed."""
        return _lineage(self.application_args)


def _lineage(application_args: Iterable[str]) -> Any:
    from tideline.airflow import lineage  # noqa: PLC0415 - the provider's client is there only where the provider is

    given = _given(application_args)
    return lineage.of_batches(given["pipeline"], _batches(given))


def _given(application_args: Iterable[str]) -> dict[str, str]:
    """Return the rendered arguments of the job by name."""
    return dict(argument.removeprefix("--").split("=", 1) for argument in application_args)


def _batches(given: Mapping[str, str]) -> list[int]:
    return [int(word) for word in given["batches"].split(",") if word]


def _require_connection(pipeline: str, connection: str) -> None:
    """Raise FatalError if Airflow has no such connection. The operator would only log this and submit the job to YARN."""
    try:
        BaseHook.get_connection(connection)
    except AirflowNotFoundException as error:
        raise FatalError(
            f"pipeline {pipeline}, key spark.connection: Airflow has no connection {connection!r}",
            next_step="add the connection to Airflow, or correct the key; then clear the task",
            entry="no-spark-connection",
        ) from error


def _job() -> str:
    return str(files("tideline.spark_jobs") / "write_batches.py")


def write(pipeline_name: str, *, pool: str | None = None) -> WriteBatches:
    """Define the task that writes the batches returned by `plan`. The deployment's Spark properties set jars and JVM options.

    Args:
        pipeline_name: The pipeline, or a template of its name.
        pool: The Airflow pool. The other tasks take none of its slots: they take seconds, and must not wait for loads.
    """
    return WriteBatches(
        task_id="write",
        pool=pool,
        name=f"tideline-{pipeline_name}",
        properties_file=settings.spark_properties(),
        application=_job(),
        application_args=[
            f"--pipeline={pipeline_name}",
            # Nothing, if `plan` was marked as success by hand: `pre_execute` then says so, and a template could only raise a TypeError.
            "--batches={{ (ti.xcom_pull(task_ids='plan') or []) | join(',') }}",
            "--dag-id={{ ti.dag_id }}",
            "--run-id={{ run_id }}",
            "--task-id={{ ti.task_id }}",
            "--try-number={{ ti.try_number }}",
        ],
        # Runs write one after the other. This only saves resources: the second run finds most of the work done.
        max_active_tis_per_dag=1,
    )
