"""Try a commit to a Delta table until its outcome is known: again where others were faster, not where the table refuses it."""

import random
import time
from collections.abc import Iterator

from tideline.errors import RetryableError
from tideline.sinks.delta import delta_errors
from tideline.sinks.delta.delta_log import Location, RefusedTableError, TakenError, UnknownError

_TRIES = 100
"""How often a commit begins anew because the table has changed. Each time some other commit has happened."""
_UNKNOWN_TRIES = 3


class CommitTrial:
    """One try to commit, as a context. It takes up what says how it failed."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if isinstance(error, TakenError | UnknownError | RefusedTableError):
            self.error = error
            return True
        return False


def trials(location: Location, what: str) -> Iterator[CommitTrial]:
    """Yield trials to commit what the message names. Each ends in a return, or in the next one.

    Raises:
        FatalError: The table refuses the commit.
        RetryableError: Storage did not answer, or others have changed the table each time.
    """
    last: Exception = UnknownError("nothing was tried")
    unknown = 0
    for number in range(_TRIES):
        trial = CommitTrial()
        yield trial
        last = trial.error or last
        if isinstance(last, RefusedTableError):
            raise delta_errors.refused(location, what, last) from last
        unknown += isinstance(last, UnknownError)
        if unknown >= _UNKNOWN_TRIES:
            raise location.unavailable(last) from last
        time.sleep(random.uniform(0, min(0.01 * 2**number, 0.5)))  # noqa: S311 - it only spreads the tries
    raise RetryableError(
        f"{location.pipeline} {what}: other commits have changed {location.uri} {_TRIES} times in a row",
        next_step="run the task again",
        entry="delta-table-does-not-answer",
    ) from last
