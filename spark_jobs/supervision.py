"""Heartbeats and the time limit of one attempt, for as long as the job works on it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tideline import settings
from tideline.declaration.pipelines import Pipeline
from tideline.errors import SupersededError, TidelineError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.refused_publications import refuse
from tideline.spark_jobs.deadline import Deadline
from tideline.spark_jobs.heartbeat import Heartbeat, Work


@contextmanager
def supervised(ledger: Ledger, pipeline: Pipeline, attempt: Attempt) -> Iterator[Work]:
    """Send heartbeats and enforce the time limit while the context is open.

    Raises:
        SupersededError: The work failed because a newer attempt has taken over.
        RetryableError: The work failed because the time limit has passed.
    """
    work, url = Work(), settings.ledger_url()
    deadline = Deadline(url, attempt, pipeline.limits.timeout_minutes, work)
    try:
        with Heartbeat(url, attempt.attempt, work.stop), deadline:
            yield work
    except Exception as error:
        if work.taken_over.is_set() and not isinstance(error, SupersededError):
            raise refuse(ledger, attempt, "a newer attempt, while staging") from error
        if deadline.has_passed.is_set() and not isinstance(error, TidelineError):
            raise deadline.error(ledger) from error
        raise
