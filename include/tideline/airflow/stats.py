"""Counters, timers and gauges of the tasks, sent by Airflow's own metrics: as StatsD or OpenTelemetry, where one of them is configured.

They are sent as Airflow sends its own: by UDP, or in the background. So a number may be missing after a crash, and a task never fails because of one.
The gauges are numbers of `tideline.metrics`, which are read from the ledger and are exact.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from airflow.sdk.configuration import conf
from airflow.sdk.observability.stats import Stats

from tideline.ledger.publications import PublishedBatch

log = logging.getLogger(__name__)
_COUNTS = ("written", "rejected", "filtered")
_BACKENDS = ("statsd_on", "statsd_datadog_enabled", "otel_on")
"""The keys of Airflow's section `metrics` that switch one on."""


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


def published(pipeline: str, publications: Iterable[PublishedBatch]) -> None:
    """Count published batches and their records and say how long they took, once for each batch: where it is announced."""
    for publication in publications:
        kind = publication.kind.value
        _count("batches.published", 1, pipeline=pipeline, kind=kind)
        for count in _COUNTS:
            n_records = sum(getattr(loaded, f"n_{count}") for loaded in publication.ranges)
            _count(f"records.{count}", n_records, pipeline=pipeline, kind=kind)
        if publication.took is not None:
            with _harmless():
                Stats.timing("tideline.batch.duration", publication.took, tags={"pipeline": pipeline, "kind": kind})


def kept_up(pipeline: str, n_changes: int) -> None:
    """Count what `upkeep` has cleaned up."""
    _count("upkeep.changes", n_changes, pipeline=pipeline)


@contextmanager
def numbers_afterwards(pipeline: str, *, unless_it_succeeds: bool = False) -> Iterator[None]:
    """Send the pipeline's numbers after the block, also if it fails: a stopped stream fails it, and is one of the numbers.

    Args:
        pipeline: The pipeline.
        unless_it_succeeds: For a task that others follow: the last one of a run sends the numbers.
    """
    try:
        yield
    except Exception:
        _send_numbers(pipeline)
        raise
    if not unless_it_succeeds:
        _send_numbers(pipeline)


def _send_numbers(pipeline: str) -> None:
    """Send a pipeline's numbers, as far as ledger and brokers answer in time. Without a backend it asks neither."""
    with _harmless():
        if not any(conf.getboolean("metrics", switch, fallback=False) for switch in _BACKENDS):
            return
        # Only now: they import the client of Prometheus, for which no task has to wait without need.
        from tideline.metrics.collecting import collect  # noqa: PLC0415
        from tideline.metrics.sheet import totals  # noqa: PLC0415

        sheet, problems = collect(pipeline)
        for problem in problems:
            log.warning("%s", problem)
        for name, tags, value in totals(sheet):
            Stats.gauge(f"tideline.{name}", value, tags=tags)


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
