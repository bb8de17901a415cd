"""Find the rejects to re-drive, and settle those that a re-drive has read, each by its identity, within the publishing transaction.

The law: a record is in the output or in the rejects, never in both and never in neither. The law would break if a
reject were deleted that no task has decoded, because it has meanwhile replaced the reject that was read.
"""

from collections.abc import Sequence

from psycopg2.extras import DictRow

from tideline.errors import RetryableError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger


def parts(ledger: Ledger, pipeline: str, *, of_batch: int | None, reason_like: str | None, size: int) -> list[DictRow]:
    """Return the offsets of rejects that no open re-drive has taken, in parts of at most `size` rejects.

    A row for each part and stream, in their order: `incarnation`, `part`, `stream_id`, `start_offset`, `end_offset`.

    Only those of the batch `of_batch`, and only those whose reason contains `reason_like`, if they are given.
    """
    return ledger.rows(
        "list_rejects_to_redrive", pipeline=pipeline, of_batch=of_batch, reason_like=reason_like, size=size
    )


def check(ledger: Ledger, attempt: Attempt) -> None:
    """Lock the rejects that a re-drive takes, and compare those that were read with those that are there, one by one.

    To compare only how many there are is not enough: a reject may have been replaced by another.

    Raises:
        RetryableError: They are not the same. Since they were read, a replay or re-drive has removed rejects, or has
            rejected the records again. To write these records as well would duplicate them, and to settle a reject that
            was not read would lose it.
    """
    found = ledger.rows("lock_redriven", batch_id=attempt.batch_id, attempt_id=attempt.attempt_id)[0]
    if found["n_gone"] or found["n_unread"] or found["n_undecoded"]:
        raise RetryableError(
            f"{attempt}: the rejects have changed since they were read: {found['n_read']} were read, {found['n_gone']} of these are gone or were "
            f"rejected again, {found['n_unread']} others are there, of {found['n_undecoded']} partitions not all were decoded",
            next_step="run the task again: it takes what is left",
            entry="rejects-have-changed",
        )


def settle(ledger: Ledger, attempt: Attempt, written: Sequence[tuple[int, int]]) -> None:
    """Delete the rejects that were written or filtered this time; keep those that were rejected again, with their new reason.

    `written` holds the stream id and the offset of each record that was written.
    """
    ledger.run("keep_rejects", attempt_id=attempt.attempt_id)
    ledger.rows(
        "settle_rejects",
        attempt_id=attempt.attempt_id,
        stream_ids=[stream_id for stream_id, _ in written],
        offsets=[offset for _, offset in written],
    )
