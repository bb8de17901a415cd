"""Turns errors that a retry cannot fix into a failure without retries. All other errors are retried as declared."""

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from tideline.errors import FatalError, NeedsOperatorError


@contextmanager
def permanent_errors_fail_at_once() -> Iterator[None]:
    """Fail the task without retries on errors that a retry cannot fix. All other errors are retried as declared."""
    try:
        yield
    except (FatalError, NeedsOperatorError) as error:
        raise AirflowFailException(str(error)) from error
