"""Adds to each line of a task's log what it is about, for programs that collect them: pipeline, batches or batch.

Airflow stores these lines as JSON, with DAG, run, task and try. The name of the DAG is not enough: `replay` and `upkeep` work for all pipelines.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from structlog.contextvars import bind_contextvars, bound_contextvars

from tideline import job_log, settings


def begin(pipeline: str) -> None:
    """Add the pipeline from here to the end of the task, if TIDELINE_LOG_FORMAT is json.

    Raises:
        FatalError: TIDELINE_LOG_FORMAT is neither text nor json.
    """
    if _for_programs():
        bind_contextvars(pipeline=pipeline)


def about(batch_ids: Sequence[int]) -> None:
    """Add the batches from here to the end of the task, likewise."""
    if _for_programs():
        bind_contextvars(batches=list(batch_ids))


@contextmanager
def of_batch(batch_id: int) -> Iterator[None]:
    """Add the one batch that the lines inside the block are about, likewise."""
    if _for_programs():
        with bound_contextvars(batch=batch_id):
            yield
    else:
        yield


def with_lines_of_job(log: Any) -> Any:
    """Return the log for the output of the Spark job, where its JSON lines become lines with their own fields, likewise."""
    return _LinesOfJob(log) if _for_programs() else log


class _LinesOfJob:
    """The log of Airflow's hook for spark-submit, which logs each line of the job's output as a text at the level info."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def info(self, line: str, *args: Any, **more: Any) -> None:
        """Log a line: one of the job with its message, level, logger, time and fields, any other as it is."""
        fields = None if args else job_log.fields_of(line)
        if fields is None:
            self._log.info(line, *args, **more)
            return
        level = logging.getLevelNamesMapping()[fields.pop("level").upper()]
        if "exception" in fields:  # Airflow's own key of that name holds no text
            fields["traceback"] = fields.pop("exception")
        self._log.log(level, str(fields.pop("message")), timestamp=fields.pop("at"), **fields, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def _for_programs() -> bool:
    return settings.log_format() == "json"
