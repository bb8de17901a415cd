"""Run the batches of a job one after the other, so that a batch that fails does not stop the others."""

import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

from tideline import job_log
from tideline.errors import FatalError, NeedsOperatorError, RetryableError, SupersededError, TidelineError

Loading = TypeVar("Loading")

_PRECEDENCE = (RetryableError, NeedsOperatorError, FatalError)
"""The class of the combined error: the first of these that occurred.

Retryable is first: if another try may help one of the batches, the task is tried again. That try meets the errors that
need an operator again.
"""


def each_by_itself(
    name: str,
    batch_ids: Sequence[int],
    begin: Callable[[int], Loading | None],
    load: Callable[[Loading], object],
    *,
    in_order: bool = False,
) -> None:
    """Begin and load each batch, even if batches before it have failed.

    Args:
        name: The name of the pipeline.
        batch_ids: In the order in which they are written.
        begin: Does all steps before anything is read. Returns None if nothing is left to write. An error here ends the
            loop, because the other batches would fail in the same way: the ledger or the broker is unavailable, or the
            declaration is wrong. The exceptions are `NeedsOperatorError`, since this batch alone cannot be read as it was
            planned, and an error that is not Tideline's, since it may be of this batch.
        load: Does the rest. An error here concerns only this batch. The exception is `SupersededError`, which ends the
            loop: a newer try has taken over, and it writes the other batches as well.
        in_order: Whether a batch needs those before it, as in a stateful pipeline. Then the first failure ends the loop.

    Raises:
        TidelineError: Immediately, if the error would affect all batches. Otherwise at the end, with the errors of the
            batches that failed.
    """
    failed: list[TidelineError] = []
    for batch_id in batch_ids:
        try:
            loading = begin(batch_id)
        except Exception as error:
            if isinstance(error, TidelineError) and not isinstance(error, NeedsOperatorError):
                raise
            failed.append(_reported(name, batch_id, error))
            if in_order:
                break
            continue
        if loading is None:
            continue
        try:
            load(loading)
        except SupersededError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other batches are not at fault
            failed.append(_reported(name, batch_id, error))
            if in_order:
                break
    if failed:
        raise _combined(name, failed, len(batch_ids))


def _reported(name: str, batch_id: int, error: Exception) -> TidelineError:
    known = error if isinstance(error, TidelineError) else _unknown(name, batch_id, error)
    job_log.say(f"{name} batch {batch_id} is not written: {known.problem}", level="error")
    return known


def _unknown(name: str, batch_id: int, error: Exception) -> RetryableError:
    """Return an error of no class of Tideline as one that says what to do. Its traceback is in the log."""
    job_log.say("".join(traceback.format_exception(error)), level="error")
    found = RetryableError(
        f"{name} batch {batch_id}: an error that Tideline does not know: {type(error).__name__}: {error}",
        next_step="run the task again; if it says the same, the traceback above in this log shows where it comes from",
        entry="unexpected-error",
    )
    found.__cause__ = error
    return found


def _combined(name: str, failed: Sequence[TidelineError], n_batches: int) -> TidelineError:
    """Return one error that lists the problems of all failed batches."""
    if len(failed) == 1:
        return failed[0]
    FirstError = next(kind for kind in _PRECEDENCE if any(isinstance(error, kind) for error in failed))  # noqa: N806 - a class
    return FirstError(
        f"{name}: {len(failed)} of {n_batches} batches failed (the others are written):\n    "
        + "\n    ".join(error.problem for error in failed),
        next_step="\n    ".join(dict.fromkeys(error.next_step for error in failed)),
        entry="batches-need-a-person",
    )
