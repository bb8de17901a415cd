"""Publish to a sink outside of the ledger's database: intend -> commit -> settle. Shared by the outputs of such sinks.

The law: each batch is visible once, and the ledger has the counts of the attempt that made it so. A crash before the
commit leaves nothing outside. A crash after it leaves a receipt, which the next claim finds and settles.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from spark_jobs.sinks.sink import Publication
from tideline import flow, outside
from tideline.domain.receipts import Receipt
from tideline.errors import RetryableError, SupersededError
from tideline.ledger import attempts
from tideline.ledger.publishing import Counts, Written
from tideline.ledger.refused_publications import refuse


class Staged(NamedTuple):
    """What an attempt is about to commit."""

    written: Written
    n_rows: int
    """How many rows the commit must hold. A record can become several rows."""
    position: Mapping[str, Any] | None = None
    """Where the output ends before the commit, in the form of its sink, if the sink may forget its receipts and searches the output then."""


class OutcomeUnknownError(RetryableError):
    """The sink did not say whether a commit took effect. Its receipt shows it."""


class Commits(Protocol):
    """The part of an outside sink's output that `publish` needs."""

    def count(self, publication: Publication) -> Staged:
        """Return what the winning tasks have staged.

        Raises:
            RetryableError: Less is there than they have reported.
        """

    def commit(self, publication: Publication, staged: Staged) -> Receipt:
        """Make the rows of the winning tasks visible in one step, unless the attempt is fenced, and return its receipt.

        Changes the version of the batch by compare-and-set from what `domain.receipts.found` calls `FREE`.

        Raises:
            SupersededError: Another attempt has committed, or the attempt is fenced. Nothing of this attempt is visible,
                and nothing ever will be.
            OutcomeUnknownError: The commit was sent, and its outcome is not known.
            RetryableError: Nothing was committed.
        """


def publish(publication: Publication, output: Commits) -> Sequence[Counts]:
    """Commit what was staged, and publish the batch in the ledger. Return its counts.

    Raises:
        TidelineError: The ledger shows nothing of this attempt. What it may have committed, the next claim settles.
    """
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
    sink = outside.of(publication.pipeline, publication.ledger)
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
