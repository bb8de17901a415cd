"""Adds the pipeline, the run and the try to each line of a task's log, for programs that collect them. Airflow stores these lines as JSON."""

from typing import Any

from structlog.contextvars import bind_contextvars

from tideline import settings


def begin(context: Any, pipeline: str) -> None:
    """Add them from here on, if TIDELINE_LOG_FORMAT is json: people see the pipeline above the log. A task is a process of its own.

    Raises:
        FatalError: TIDELINE_LOG_FORMAT is neither text nor json.
    """
    if settings.log_format() == "json":
        ti = context["ti"]
        bind_contextvars(pipeline=pipeline, run_id=ti.run_id, task_id=ti.task_id, attempt=ti.try_number)
