"""Publish what an attempt has staged: have the sink make its rows visible, and the ledger say so.

The law: each batch is visible once, with the counts of the attempt that made it so. In the ledger's database one
transaction does both. Outside of it: intend -> commit -> settle. A crash before the commit leaves nothing outside. A crash
after it leaves a receipt, which the next claim finds and settles.
"""

from collections.abc import Callable, Sequence
from functools import partial

from tideline import flow, job_log
from tideline.domain.receipts import Receipt
from tideline.errors import RetryableError, SupersededError
from tideline.ledger import attempts
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Counts, Written
from tideline.ledger.refused_publications import refuse
from tideline.sinks import kinds
from tideline.sinks.sink import (
    Commits,
    Inserts,
    OutcomeUnknownError,
    Output,
    Publication,
    Refused,
    RowsRefusedError,
)

InOneStep = Callable[[Callable[[Ledger], Written]], Sequence[Counts]]
"""Publishes a batch with the rows that the argument inserts, in one transaction."""


def publish(publication: Publication, output: Output | Inserts | Commits) -> Sequence[Counts]:
    """Make the rows of the winning tasks visible exactly once, and return the counts of the batch.

    Raises:
        TidelineError: The ledger shows nothing of this attempt. What it may have committed outside, the next claim settles.
    """
    if isinstance(output, Commits):
        return _commit(publication, output)
    if isinstance(output, Inserts):
        return _insert(publication, output)
    raise TypeError(f"{publication.attempt}: expected an output that inserts or commits, found {type(output).__name__}")


def _insert(publication: Publication, output: Inserts) -> Sequence[Counts]:
    """Insert the rows and publish the batch in one transaction. Records with a row that the output refuses become rejects.

    Each round rejects at least one record, so the loop ends. More than one round is needed only if another client
    writes to the output meanwhile.
    """
    attempt, winners = publication.attempt, publication.winners
    in_one_step: InOneStep = partial(
        flow.publish,
        publication.ledger,
        publication.broker,
        publication.pipeline,
        attempt,
        filtered_by_difference=publication.filtered_by_difference,
    )
    while True:
        try:
            return in_one_step(partial(output.insert, winners=winners))
        except RowsRefusedError as error:
            job_log.say(f"{error}; looking for the refused records")
        refused = _found(in_one_step, partial(output.find_refused, winners=winners))
        job_log.say(f"{attempt}: {len(refused)} records become rejects, the first of them: {refused[0].reason}")
        n_rejected = publication.reject(refused)
        if n_rejected != len(refused):
            raise RetryableError(
                f"{attempt}: {len(refused)} records were refused, {n_rejected} of them could be read once more",
                next_step="run the task again",
            )


class _FoundError(Exception):
    """Carries refused records. It is an error so that the transaction in which they were tried is rolled back."""

    def __init__(self, records: list[Refused]) -> None:
        super().__init__(f"{len(records)} records are refused")
        self.records = records


def _found(in_one_step: InOneStep, find: Callable[[Ledger], list[Refused]]) -> list[Refused]:
    """Return the records that the output refuses. The rows that were inserted to find them are rolled back."""

    def tried(ledger: Ledger) -> Written:
        raise _FoundError(find(ledger))

    try:
        in_one_step(tried)
    except _FoundError as found:
        return found.records
    raise AssertionError("the trial of the records was not rolled back")


def _commit(publication: Publication, output: Commits) -> Sequence[Counts]:
    """Commit what was staged, and publish the batch in the ledger."""
    attempt, ledger = publication.attempt, publication.ledger
    staged = output.count(publication)
    flow.intend(
        ledger,
        publication.broker,
        publication.pipeline,
        attempt,
        staged.written,
        n_rows=staged.n_rows,
        filtered_by_difference=publication.filtered_by_difference,
        position=staged.position,
    )
    try:
        receipt = output.commit(publication, staged)
    except SupersededError as error:
        raise _fenced(publication, error) from error
    except OutcomeUnknownError:
        found = _look(publication)
        if found is None or found.attempt != attempt.attempt:
            raise  # a commit in flight may still take effect: the next claim fences it, and then looks
        receipt = found
    return flow.settle(ledger, attempt, receipt)


def _look(publication: Publication) -> Receipt | None:
    sink = kinds.of(publication.pipeline).outside(publication.pipeline, publication.ledger)
    return sink.look(publication.attempt.batch) if sink else None


def _fenced(publication: Publication, error: SupersededError) -> SupersededError | RetryableError:
    """Return why a commit was refused. An attempt that still holds its batch was fenced by a decision that was not taken in the end."""
    ledger, attempt = publication.ledger, publication.attempt
    if attempts.holds(ledger, attempt):
        return RetryableError(
            f"{attempt}: the output has refused its commit, and no newer attempt has the batch: {error.problem}",
            next_step="run the task again: its next attempt may commit, or settles what is committed",
            entry="commit-was-refused",
        )
    return refuse(ledger, attempt, error.problem)
