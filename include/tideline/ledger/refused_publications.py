"""Say why a publication was refused: by a law of the ledger, or because the attempt does not hold its batch any more."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg2.errorcodes import CHECK_VIOLATION, EXCLUSION_VIOLATION

from tideline.errors import NeedsOperatorError, RetryableError, SupersededError
from tideline.ledger import events
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import RefusedStatementError, said

_STREAM = re.compile(r"^Failing row contains \(\d+, (\d+), ")
"""Finds the stream in a row of `batch_range`, whose second column it is."""


def refuse(ledger: Ledger, attempt: Attempt, found: str) -> SupersededError:
    """Record that a superseded attempt was refused, and return the error to raise."""
    with ledger.transaction():
        events.record(
            ledger,
            "refuse",
            pipeline=attempt.pipeline,
            batch_id=attempt.batch_id,
            attempt=attempt.attempt,
            fence=attempt.fence,
            found=found,
        )
    return SupersededError(
        f"{attempt} was refused: expected to hold the batch, found {found}",
        next_step="nothing: a newer attempt has the batch, and this one has changed nothing",
    )


@contextmanager
def explained(attempt: Attempt) -> Iterator[None]:
    """Turn a law of the ledger that refuses a publication into an error with a next step.

    Raises:
        NeedsOperatorError: The counts do not add up.
        RetryableError: Staged rows are missing, or another batch has taken some of the offsets.
    """
    try:
        yield
    except RefusedStatementError as error:
        if error.sqlstate == CHECK_VIOLATION:
            raise _does_not_add_up(attempt, error) from error
        if error.sqlstate == EXCLUSION_VIOLATION:
            raise _taken_meanwhile(attempt) from error
        raise


def _taken_meanwhile(attempt: Attempt) -> RetryableError:
    return RetryableError(
        f"{attempt}: another batch has taken some of the same offsets while this one was being published: {attempt.describe_ranges()}",
        next_step="run the task again: it sees what the other one has left",
        entry="offsets-taken-meanwhile",
    )


_BROKEN = {
    "gaps_are_allowed": "some of its offsets have no record, and the batch was planned for a topic without gaps",
    "end_not_behind": "the log is shorter now than when it was read",
    "retention_not_ahead": "offsets have no record, and retention has passed the start of the range: they may be lost",
    "offsets_add_up": "not each of its offsets was read, or has no record",
}
"""What has happened, by the name of a law that a publication may break."""


def _does_not_add_up(attempt: Attempt, error: RefusedStatementError) -> NeedsOperatorError | RetryableError:
    law = error.diag.constraint_name
    where = _where(attempt, error)
    if law == "counts_add_up":
        # Staging is UNLOGGED: a crash of the server empties it, and then staged rows are fewer than records read.
        return RetryableError(
            f"{attempt}: what was staged is not what was read ({where})",
            next_step="run the task again",
            entry="staged-rows-are-missing",
        )
    step = {
        # A batch keeps the settings that it was planned with, so a new declaration alone would not help it.
        "gaps_are_allowed": "if producers of this topic use transactions, declare source.gaps: allowed and let the batch be planned again: "
        f"tideline abandon {attempt.batch_id} --reason ...; else find out what removed the records",
        "end_not_behind": "find out why the log is shorter than when it was read (unclean election, restore)",
        "retention_not_ahead": "raise the topic's retention; what was deleted before the read is lost",
    }
    found = _BROKEN.get(law, f"law {law} of the ledger is broken") if law else said(error)
    return NeedsOperatorError(
        f"{attempt} cannot be published: {where}: {found}{f' ({law})' if law in _BROKEN else ''}",
        next_step=step.get(law or "", "look at the counts in tideline.batch_range and the attempts of this batch"),
        entry="cannot-be-published",
    )


def _where(attempt: Attempt, error: RefusedStatementError) -> str:
    """Return the range of the row that the server has refused, if it is one of a range; else all ranges of the batch."""
    of_a_range = '"batch_range"' in (error.diag.message_primary or "")
    row = _STREAM.search(error.diag.message_detail or "") if of_a_range else None
    found = [str(piece) for piece in attempt.ranges if row and piece.stream_id == int(row[1])]
    return found[0] if found else attempt.describe_ranges()
