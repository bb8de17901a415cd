"""advance, announce, is_behind, show_heads: move the heads over published batches, announce these, check for more records, and show the heads.

Each published batch is announced once, however its run ended. Airflow commits the events of a task together with its success, in one transaction
of its own database. The ledger cannot take part in that transaction. So a batch leaves the outbox only when its event was seen. If a task took a
batch and ended without its event, another task takes it.
"""

import logging
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Protocol
from uuid import UUID

from tideline.domain.streams import is_of_growth
from tideline.errors import NeedsOperatorError, TidelineError
from tideline.kafka.broker import Broker
from tideline.ledger import heads, publications, reservations
from tideline.ledger.connection import Ledger
from tideline.ledger.publications import Announcer, PublishedBatch
from tideline.ledger.reservations import Run

log = logging.getLogger(__name__)


def advance(ledger: Ledger, pipeline: str, run: Run) -> list[int]:
    """Move the heads over published batches, then make sure that every batch of `run` is finished.

    The check reads the ledger and not Airflow: a `write` task that was marked success by hand has published nothing.

    Returns:
        The batches completed by this call, oldest first.

    Raises:
        NeedsOperatorError: A batch of this run is not finished, or streams of the pipeline are stopped.
        RetryableError: The ledger did not answer.
    """
    advanced = heads.advance_published(ledger, pipeline)
    blocked = heads.in_the_way(ledger, pipeline, run)
    if blocked:
        raise NeedsOperatorError(
            f"{pipeline}: the run is not finished:\n    " + "\n    ".join(blocked),
            next_step="clear the task `write` of this run with its downstream tasks, or let the next run finish it",
            entry="run-not-finished",
        )
    waiting = heads.stopped_streams(ledger, pipeline)
    if waiting:
        raise stopped(pipeline, waiting)
    return advanced


def check_given(ledger: Ledger, pipeline: str, run: Run, batch_ids: Sequence[int]) -> None:
    """Make sure that the ledger has given these batches to this run of this pipeline. Airflow stores their ids as the result of `plan`.

    Airflow and the ledger are two databases. A ledger that was restored to an earlier moment no longer knows a run's batches, or has given their
    ids to other runs since. The first task that uses the ids must fail then. Otherwise it would find nothing to do and succeed.

    Raises:
        NeedsOperatorError: The ledger has not given one of these batches to the run, or `batch_ids` is empty.
    """
    if not batch_ids:
        raise none_given(pipeline, run)
    with ledger.transaction():
        given = reservations.given(ledger, pipeline, run)
    unknown = sorted(set(batch_ids) - set(given))
    if unknown:
        batches = f"batches {', '.join(map(str, unknown))}"
        raise NeedsOperatorError(
            f"{pipeline}: expected {batches} among those of the run {run.run_id} of {run.dag_id}; the ledger has given it "
            f"{', '.join(map(str, given)) or 'none'}: was the ledger restored to an earlier moment?",
            next_step="clear the whole run, so that its task `plan` asks this ledger; first see what is to be done after a restore: tideline doctor",
            entry="batches-of-another-ledger",
        )


def none_given(pipeline: str, run: Run) -> NeedsOperatorError:
    """Return the error for a run whose task `plan` has returned no batches. One that finds nothing to load skips the tasks behind it."""
    return NeedsOperatorError(
        f"{pipeline}: expected batches from the task `plan` of the run {run.run_id} of {run.dag_id}, found none: `plan` is a success in Airflow "
        "and has returned nothing, as if it was marked as success by hand before it had run",
        next_step="clear the task `plan` of this run with its downstream tasks; if nothing is to be loaded, mark the run itself",
        entry="no-batches-from-plan",
    )


def is_behind(ledger: Ledger, broker: Broker, pipeline: str) -> bool:
    """Return whether Kafka has unread records after the heads.

    Runs are capped, and a pipeline that is triggered by records has no later run for the rest unless one is requested. A broker that does not
    answer counts as one that has more records: an unnecessary run costs little, because its tasks are skipped.
    """
    heads_now = heads.of_pipeline(ledger, pipeline)
    try:
        topics = broker.topic_facts()
    except TidelineError as error:
        log.warning("%s: cannot see whether there are more records: %s", pipeline, error.problem)
        return True
    return any(
        heads_now.get((topic.topic, facts.partition), facts.log_start) < facts.end
        for topic in topics
        for facts in topic.partitions
    )


def show_heads(ledger: Ledger, broker: Broker, pipeline: str) -> None:
    """Commit the heads to the consumer group `tideline.<pipeline>`, so that lag tools see them. Nothing reads them back.

    Best effort: an error is only logged as a warning, because the load is finished.
    """
    try:
        if found := heads.of_pipeline(ledger, pipeline):
            broker.commit_heads(f"tideline.{pipeline}", found)
    except TidelineError as error:
        log.warning("%s: the heads are not in its consumer group: %s", pipeline, error.problem)


def resolving(pipeline: str, label: str, problem: str) -> str:
    """Return the command with which an operator resolves a stopped stream."""
    topic = label.rpartition("/")[0]
    if is_of_growth(problem):
        return f"tideline accept-partitions {pipeline} {topic} --reason ..."
    if "offsets" in problem.partition(" ")[0] or problem.startswith("the log ends"):
        return f"tideline accept-loss {pipeline} {label} --reason ..."
    return f"tideline adopt-topic {pipeline} {topic} --reason ..."


def stopped(pipeline: str, streams: Iterable[tuple[str, int, str]]) -> NeedsOperatorError:
    """Return the error that lists a pipeline's stopped streams: label, head and problem of each."""
    listed = list(streams)
    lines = [f"{label} at offset {head}: {problem}" for label, head, problem in listed]
    commands = sorted({resolving(pipeline, label, problem) for label, _, problem in listed})
    return NeedsOperatorError(
        f"{pipeline}: streams are stopped, the others go on:\n    " + "\n    ".join(lines),
        next_step="find out why, then decide what happens to their offsets; nothing is reset or skipped automatically:\n    "
        + "\n    ".join(commands),
        entry="stream-stopped",
    )


class AssetEvents(Protocol):
    """What Airflow knows about the events of one pipeline's asset."""

    def may_succeed(self, announcer: Announcer) -> bool:
        """Return whether that task is running: it may still succeed and commit the events of the batches that it has taken."""

    def announced(self, since: datetime) -> AbstractSet[UUID]:
        """Return the attempts whose batches have an event, at least of the batches that were published at `since` or later."""


def announce(ledger: Ledger, pipeline: str, announcer: Announcer, events: AssetEvents) -> list[PublishedBatch]:
    """Take the batches that this task must announce, in order of publication. Leave those that another running task may still announce.

    The task must announce all of them and then succeed. If it does not, the next task that calls this takes the same batches.

    Raises:
        RetryableError: The ledger did not answer.
    """
    waiting = publications.waiting(ledger, pipeline)
    if not waiting:
        return []
    # Check for running tasks before reading the events: a task that has ended by now has committed all of its events. In the other order a task
    # could succeed in between, and its batches would be announced twice.
    others = {batch.announcer for batch in waiting} - {None, announcer}
    running = {other for other in others if other is not None and events.may_succeed(other)}
    announced = events.announced(min(batch.published_at for batch in waiting))
    seen = [batch for batch in waiting if batch.attempt in announced]
    publications.confirm(ledger, seen)
    free = [batch for batch in waiting if batch.attempt not in announced and batch.announcer not in running]
    return publications.take(ledger, free, announcer)
