"""Say why a publication was refused: by a law of the ledger, or because the attempt does not hold its batch any more."""

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg2.errorcodes import CHECK_VIOLATION, EXCLUSION_VIOLATION

from tideline.errors import NeedsOperatorError, RetryableError, SupersededError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger, json
from tideline.ledger.database_errors import RefusedError


def refuse(ledger: Ledger, attempt: Attempt, found: str) -> SupersededError:
    """Record that a superseded attempt was refused, and return the error to raise."""
    with ledger.transaction():
        ledger.run(
            "record_event",
            action="refuse",
            pipeline=attempt.pipeline,
            batch_id=attempt.batch_id,
            stream_id=None,
            attempt=attempt.attempt,
            detail=json({"fence": attempt.fence, "found": found}),
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
    except RefusedError as error:
        if error.sqlstate == CHECK_VIOLATION:
            raise _does_not_add_up(attempt, error) from error
        if error.sqlstate == EXCLUSION_VIOLATION:
            raise _taken_meanwhile(attempt, error) from error
        raise


def _taken_meanwhile(attempt: Attempt, error: RefusedError) -> RetryableError:
    return RetryableError(
        f"{attempt}: another batch has taken some of the same offsets while this one was being published: {error.diag.message_detail}",
        next_step="run the task again: it sees what the other one has left",
        entry="offsets-taken-meanwhile",
    )


def _does_not_add_up(attempt: Attempt, error: RefusedError) -> NeedsOperatorError | RetryableError:
    law, found = error.diag.constraint_name, error.diag.message_detail or error.diag.message_primary
    if law == "counts_add_up":
        # Staging is UNLOGGED: a crash of the server empties it, and then staged rows are fewer than records read.
        return RetryableError(
            f"{attempt}: what was staged is not what was read ({found})",
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
    return NeedsOperatorError(
        f"{attempt} cannot be published: {law or 'a law of the ledger'} is broken ({found})",
        next_step=step.get(law or "", "look at the counts in tideline.batch_range and the attempts of this batch"),
        entry="cannot-be-published",
    )
