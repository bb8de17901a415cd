"""advance: move the heads over what is published."""

from collections.abc import Iterable

from tideline.errors import NeedsOperatorError
from tideline.ledger import heads
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run


def advance(ledger: Ledger, pipeline: str, run: Run) -> list[int]:
    """Move the heads over published batches, then make sure that every batch of `run` is through; returns what moved now.

    It reads the ledger and not Airflow: a `write` task that was marked success by hand has published nothing.

    Raises:
        NeedsOperatorError: A batch of this run is not published, or streams of the pipeline are stopped.
        RetryableError: The ledger did not answer.
    """
    advanced = heads.advance_published(ledger, pipeline)
    blocked = heads.in_the_way(ledger, pipeline, run)
    if blocked:
        raise NeedsOperatorError(
            f"{pipeline}: the run is not through:\n    " + "\n    ".join(blocked),
            next_step="clear the task `write` of this run with its downstream tasks, or let the next run finish it",
        )
    waiting = heads.stopped_streams(ledger, pipeline)
    if waiting:
        raise stopped(pipeline, waiting)
    return advanced


def stopped(pipeline: str, lines: Iterable[str]) -> NeedsOperatorError:
    """The error that names a pipeline's stopped streams."""
    return NeedsOperatorError(
        f"{pipeline}: streams are stopped, the others go on:\n    " + "\n    ".join(lines),
        next_step="decide what becomes of their offsets: docs/guarantees.md, section 'When a stream stops'. Nothing is reset or skipped by itself",
    )
