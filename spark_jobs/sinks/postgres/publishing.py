"""Publish what an attempt has staged. If the target refuses a row of a record, the record becomes a reject. The others are published."""

from collections.abc import Callable, Sequence
from functools import partial

from spark_jobs.sinks.postgres import insertion, refusals, upserting
from spark_jobs.sinks.postgres.insertion import RowsRefusedError, Staged
from spark_jobs.sinks.postgres.refusals import FoundError
from spark_jobs.sinks.sink import Publication, Refused
from tideline import flow, job_log
from tideline.errors import RetryableError
from tideline.ledger.publishing import Counts


def publish(publication: Publication, staged: Staged) -> Sequence[Counts]:
    """Make a staged attempt visible, without the records that the target refuses.

    Each round rejects at least one record, so the loop ends. More than one round is needed only if another client
    writes to the table meanwhile.

    Raises:
        TidelineError: See `flow.publish`, `insertion.insert_output` and `refusals.find`. Nothing is published.
    """
    attempt = publication.attempt
    insert_output = upserting.insert_output if staged.target.upsert else insertion.insert_output
    in_one_step = partial(
        flow.publish,
        publication.ledger,
        publication.broker,
        publication.pipeline,
        attempt,
        filtered_by_difference=publication.filtered_by_difference,
    )
    while True:
        try:
            return in_one_step(partial(insert_output, staged=staged))
        except RowsRefusedError as error:
            job_log.say(f"{error}; looking for the refused records")
        refused = _found(in_one_step, staged)
        job_log.say(f"{attempt}: {len(refused)} records become rejects, the first of them: {refused[0].reason}")
        n_rejected = publication.reject(refused)
        if n_rejected != len(refused):
            raise RetryableError(
                f"{attempt}: {len(refused)} records were refused, {n_rejected} of them could be read once more",
                next_step="run the task again",
            )


def _found(in_one_step: Callable[..., object], staged: Staged) -> list[Refused]:
    """Return the records that the target refuses. The rows that were inserted to find them are rolled back."""
    try:
        in_one_step(partial(refusals.find, staged=staged))
    except FoundError as found:
        return found.records
    raise AssertionError("the trial of the records was not rolled back")
