"""Counters and timers of the tasks, sent by Airflow's own metrics: as StatsD or OpenTelemetry, where an Airflow is configured for one of them.

They are sent as Airflow sends its own: by UDP, or in the background. So a number may be missing after a crash, and a task never fails because of one.
The numbers of `tideline.cli.numbers` are read from the ledger, and are exact.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from airflow.sdk.observability.stats import Stats

from tideline.ledger.publications import Publication

log = logging.getLogger(__name__)
_COUNTS = ("written", "rejected", "filtered")


@contextmanager
def timed(task: str, pipeline: str) -> Iterator[None]:
    """Send how long the block takes, and whether it has failed."""
    began, outcome = time.monotonic(), "failed"
    try:
        yield
        outcome = "success"
    finally:
        milliseconds = (time.monotonic() - began) * 1_000
        with _harmless():
            Stats.timing(f"tideline.{task}.duration", milliseconds, tags={"pipeline": pipeline, "outcome": outcome})


def planned(pipeline: str, n_batches: int) -> None:
    """Count the batches that `plan` has handed to a run."""
    _count("batches.planned", n_batches, pipeline=pipeline)


def advanced(pipeline: str, n_batches: int) -> None:
    """Count the batches that the heads have passed."""
    _count("batches.advanced", n_batches, pipeline=pipeline)


def published(pipeline: str, publications: Iterable[Publication]) -> None:
    """Count published batches and their records, once for each batch: where it is announced."""
    for publication in publications:
        kind = publication.kind.value
        _count("batches.published", 1, pipeline=pipeline, kind=kind)
        for count in _COUNTS:
            n_records = sum(getattr(loaded, f"n_{count}") for loaded in publication.ranges)
            _count(f"records.{count}", n_records, pipeline=pipeline, kind=kind)


def kept_up(pipeline: str, n_changes: int) -> None:
    """Count what `upkeep` has cleaned up."""
    _count("upkeep.changes", n_changes, pipeline=pipeline)


def _count(name: str, count: int, **tags: str) -> None:
    if count:
        with _harmless():
            Stats.incr(f"tideline.{name}", count, tags=tags)


@contextmanager
def _harmless() -> Iterator[None]:
    """Log an error of a metrics backend. The work of the task is done, and is not undone by it."""
    try:
        yield
    except Exception:
        log.warning("a number for Airflow's metrics could not be sent", exc_info=True)
