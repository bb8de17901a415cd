"""Settle the rejects that a re-drive has read, each by its identity, within the publishing transaction. Called by `publishing`.

The law: a record is in the output or in the rejects, never in both and never in neither. What would break it is a reject that goes although no task
has decoded it, because another one is there in its place.
"""

from collections.abc import Sequence

from tideline.errors import RetryableError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger


def check(ledger: Ledger, attempt: Attempt) -> None:
    """Lock the rejects that a re-drive takes, and compare which ones were read with which ones are there: never how many.

    Raises:
        RetryableError: They are not the same. A replay or re-drive has taken rejects away since they were read, or has rejected the records anew: to
            write them as well would double them, and to settle what was not read would lose it.
    """
    found = ledger.rows("lock_redriven", batch_id=attempt.batch_id, attempt_id=attempt.attempt_id)[0]
    if found["n_gone"] or found["n_unread"] or found["n_undecoded"]:
        raise RetryableError(
            f"{attempt}: the rejects have changed since they were read: {found['n_read']} were read, {found['n_gone']} of these are gone or were "
            f"rejected anew, {found['n_unread']} others are there, of {found['n_undecoded']} partitions not all were decoded",
            next_step="run the task again: it takes what is left",
            entry="rejects-have-changed",
        )


def settle(ledger: Ledger, attempt: Attempt, written: Sequence[tuple[int, int]]) -> None:
    """Rejects that were written or filtered this time go, those rejected again stay with their new reason. `written`: stream and offset."""
    ledger.run("keep_rejects", attempt_id=attempt.attempt_id)
    ledger.rows(
        "settle_rejects",
        attempt_id=attempt.attempt_id,
        stream_ids=[stream_id for stream_id, _ in written],
        offsets=[offset for _, offset in written],
    )
