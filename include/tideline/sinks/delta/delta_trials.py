"""Try a commit to a Delta table until its outcome is known: again where others were faster, not where the table refuses it."""

from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_random_exponential

from tideline.errors import RetryableError
from tideline.sinks.delta import delta_errors
from tideline.sinks.delta.delta_log import Location, RefusedTableError, TakenError, UnknownError

T = TypeVar("T")
_TRIES = 100
"""How often a commit begins anew because the table has changed. Each time some other commit has happened."""
_UNKNOWN_TRIES = 3
_FIRST_S, _MOST_S = 0.01, 0.5
"""The first and the longest pause, in seconds, of which a random part is waited: so two that meet do not meet again."""


def tried(location: Location, what: str, once: Callable[[], T]) -> T:
    """Call `once` until it neither was too late nor is without an answer, and return what it returns.

    Args:
        location: The table.
        what: What is committed, for messages.
        once: Looks at the table as it is, and commits behind that. Called anew after TakenError and UnknownError.

    Raises:
        FatalError: The table refuses the commit.
        RetryableError: Storage did not answer, or others have changed the table each time.
    """
    n_unknown = 0

    def too_often(state: RetryCallState) -> bool:
        nonlocal n_unknown
        n_unknown += isinstance(state.outcome and state.outcome.exception(), UnknownError)
        return n_unknown >= _UNKNOWN_TRIES or state.attempt_number >= _TRIES

    again = Retrying(
        retry=retry_if_exception_type((TakenError, UnknownError)),
        wait=wait_random_exponential(multiplier=_FIRST_S, max=_MOST_S),
        stop=too_often,
        reraise=True,
    )
    try:
        return again(once)
    except RefusedTableError as error:
        raise delta_errors.refused(location, what, error) from error
    except UnknownError as error:
        raise location.unavailable(error) from error
    except TakenError as error:
        raise RetryableError(
            f"{location.pipeline} {what}: other commits have changed {location.uri} {_TRIES} times in a row",
            next_step="run the task again",
            entry="delta-table-does-not-answer",
        ) from error
