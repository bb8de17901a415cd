"""Adds the pipeline to each line of a task's log, for programs that collect them. Airflow stores these lines as JSON, with DAG, run, task and try.

The name of the DAG is not enough: `replay` and `upkeep` work for all pipelines.
"""

from structlog.contextvars import bind_contextvars

from tideline import settings


def begin(pipeline: str) -> None:
    """Add it from here to the end of the task, if TIDELINE_LOG_FORMAT is json.

    Raises:
        FatalError: TIDELINE_LOG_FORMAT is neither text nor json.
    """
    if settings.log_format() == "json":
        bind_contextvars(pipeline=pipeline)
