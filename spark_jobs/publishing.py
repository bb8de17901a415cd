"""Publish what an attempt has staged. If the target refuses a row of a record, the record becomes a reject. The others are published."""

from collections.abc import Callable, Sequence
from functools import partial

from spark_jobs.sinks import postgres_output, postgres_refusals
from spark_jobs.sinks.postgres_output import RowsRefusedError, Staged
from spark_jobs.sinks.postgres_refusals import FoundError, Refused
from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.domain.states import BatchKind
from tideline.errors import RetryableError
from tideline.kafka.broker import Broker
from tideline.ledger.attempts import SHOWN_RANGES, Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Counts

Reject = Callable[[Sequence[Refused]], int]
"""Stores these records as rejects of the attempt, with their bytes from the source. Returns how many it has stored."""


def publish(
    ledger: Ledger, broker: Broker, pipeline: Pipeline, staged: Staged, reject: Reject, *, filtered_by_difference: bool
) -> Sequence[Counts]:
    """Make a staged attempt visible, without the records that the target refuses.

    Each round rejects at least one record, so the loop ends. More than one round is needed only if another client
    writes to the table meanwhile.

    Raises:
        TidelineError: See `flow.publish`, `postgres_output.insert_output` and `postgres_refusals.find`. Nothing is
            published.
    """
    attempt = staged.attempt
    in_one_step = partial(
        flow.publish, ledger, broker, pipeline, attempt, filtered_by_difference=filtered_by_difference
    )
    while True:
        try:
            return in_one_step(partial(postgres_output.insert_output, staged=staged))
        except RowsRefusedError as error:
            print(f"{error}; looking for the refused records", flush=True)
        refused = _found(in_one_step, staged)
        print(f"{attempt}: {len(refused)} records become rejects, the first of them: {refused[0].reason}", flush=True)
        n_rejected = reject(refused)
        if n_rejected != len(refused):
            raise RetryableError(
                f"{attempt}: {len(refused)} records were refused, {n_rejected} of them could be read once more",
                next_step="run the task again",
            )


def _found(in_one_step: Callable[..., object], staged: Staged) -> list[Refused]:
    """Return the records that the target refuses. The rows that were inserted to find them are rolled back."""
    try:
        in_one_step(partial(postgres_refusals.find, staged=staged))
    except FoundError as found:
        return found.records
    raise AssertionError("the trial of the records was not rolled back")


def report(attempt: Attempt, counts: Sequence[Counts]) -> None:
    """Print the counts of a published batch: for each of the first streams (at most `SHOWN_RANGES`), and in total."""
    for count in counts[:SHOWN_RANGES]:
        # A re-drive reads only rejects: the offsets between them are other records, not gaps.
        gap = "" if attempt.kind is BatchKind.REDRIVE else f", gap {count.n_gap}"
        print(
            f"  {count.label}: read {count.n_read}, written {count.n_written}, rejected {count.n_rejected}, "
            f"filtered {count.n_filtered}{gap}"
        )
    if len(counts) > SHOWN_RANGES:
        print(f"  and {len(counts) - SHOWN_RANGES} more: tideline batch {attempt.batch_id}")
    total = [sum(values) for values in zip(*((c.n_read, c.n_written, c.n_rejected) for c in counts), strict=True)]
    print(f"{attempt}: published; read {total[0]}, written {total[1]}, rejected {total[2]}", flush=True)
