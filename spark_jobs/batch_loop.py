"""Batches are written one after the other, and one that fails costs itself only."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tideline.errors import FatalError, NeedsOperatorError, RetryableError, SupersededError, TidelineError

Loading = TypeVar("Loading")

_FIRST = (RetryableError, NeedsOperatorError, FatalError)
"""Where another try may help one of the batches it is to be made; what needs a person comes up again in it."""


def each_by_itself(
    name: str,
    batch_ids: Sequence[int],
    begin: Callable[[int], Loading | None],
    load: Callable[[Loading], object],
) -> None:
    """Begin and load each batch, whatever becomes of those before it.

    Args:
        name: The pipeline's.
        batch_ids: In the order in which they are written.
        begin: What comes before anything is read: all that fails here each of the others would meet as well (the ledger or the broker is gone, the
            declaration is wrong), but for a batch that cannot be read as it was planned. None where nothing is left to write.
        load: The rest: what fails here is the batch's own, but for a newer try that has taken over and does the others as well.

    Raises:
        TidelineError: What each of the others would meet as well, at once; or, at the end, what was wrong with those that have failed.
    """
    failed: list[TidelineError] = []
    for batch_id in batch_ids:
        try:
            loading = begin(batch_id)
        except NeedsOperatorError as error:
            failed.append(_told(name, batch_id, error))
            continue
        if loading is None:
            continue
        try:
            load(loading)
        except SupersededError:
            raise
        except TidelineError as error:
            failed.append(_told(name, batch_id, error))
    if failed:
        raise _together(name, failed, len(batch_ids))


def _told(name: str, batch_id: int, error: TidelineError) -> TidelineError:
    print(f"{name} batch {batch_id} is not written: {error.problem}", flush=True)
    return error


def _together(name: str, failed: Sequence[TidelineError], n_batches: int) -> TidelineError:
    """One error for all of them."""
    if len(failed) == 1:
        return failed[0]
    FirstError = next(kind for kind in _FIRST if any(isinstance(error, kind) for error in failed))  # noqa: N806 - a class
    return FirstError(
        f"{name}: {len(failed)} of {n_batches} batches are not written, the others are:\n    "
        + "\n    ".join(error.problem for error in failed),
        next_step="\n    ".join(dict.fromkeys(error.next_step for error in failed)),
        entry="batches-need-a-person",
    )
