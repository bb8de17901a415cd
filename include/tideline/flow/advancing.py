"""advance: move the heads over what is published. is_behind: whether there is more. show_heads: let the tools of Kafka see them."""

import logging
from collections.abc import Iterable, Sequence

from tideline.errors import NeedsOperatorError, TidelineError
from tideline.kafka.broker import Broker
from tideline.ledger import heads
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run

log = logging.getLogger(__name__)


def advance(ledger: Ledger, pipeline: str, run: Run) -> list[int]:
    """Move the heads over published batches, then make sure that every batch of `run` is finished; returns what moved now.

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
            entry="run-not-through",
        )
    waiting = heads.stopped_streams(ledger, pipeline)
    if waiting:
        raise stopped(pipeline, waiting)
    return advanced


def check_given(ledger: Ledger, pipeline: str, run: Run, batch_ids: Sequence[int]) -> None:
    """Make sure that the ledger has given these batches, which Airflow remembers of the run's `plan`, to this run of this pipeline.

    Airflow and the ledger are two databases. A ledger that was restored to an earlier moment no longer knows a run's batches, or has given their
    numbers to others since: the first task that asks must notice, and not find nothing to do.

    Raises:
        NeedsOperatorError: It has not, or there are none.
    """
    with ledger.transaction():
        rows = ledger.rows("list_given_batches", pipeline=pipeline, dag_id=run.dag_id, run_id=run.run_id)
    unknown = sorted(set(batch_ids) - {row["batch_id"] for row in rows})
    if unknown or not batch_ids:
        expected = f"batches {', '.join(map(str, unknown))}" if unknown else "at least one batch from its task `plan`"
        raise NeedsOperatorError(
            f"{pipeline}: expected {expected} among those of the run {run.run_id} of {run.dag_id}; the ledger has given it "
            f"{', '.join(str(row['batch_id']) for row in rows) or 'none'}: was the ledger restored to an earlier moment?",
            next_step="clear the whole run, so that its task `plan` asks this ledger; first see what is to be done after a restore: tideline doctor",
            entry="batches-of-another-ledger",
        )


def is_behind(ledger: Ledger, broker: Broker, pipeline: str) -> bool:
    """Whether records wait behind the heads: a run plans only so many batches, and of those who are woken by records nobody comes for the rest.

    A broker that does not answer counts as one that has more: to look once too often costs a run that is skipped.
    """
    with ledger.transaction():
        heads_now = {
            (row["topic"], row["partition"]): row["next_offset"] for row in ledger.rows("list_heads", pipeline=pipeline)
        }
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

    Best effort: whatever goes wrong is a warning, because the load is finished.
    """
    try:
        with ledger.transaction():
            found = ledger.rows("list_heads", pipeline=pipeline)
        if found:
            broker.commit_heads(
                f"tideline.{pipeline}", {(row["topic"], row["partition"]): row["next_offset"] for row in found}
            )
    except TidelineError as error:
        log.warning("%s: the heads are not in its consumer group: %s", pipeline, error.problem)


def resolving(pipeline: str, label: str, problem: str) -> str:
    """The command with which a person decides about a stream that has stopped."""
    topic = label.rpartition("/")[0]
    if "offsets" in problem.partition(" ")[0] or problem.startswith("the log ends"):
        return f"tideline accept-loss {pipeline} {label} --reason ..."
    return f"tideline adopt-topic {pipeline} {topic} --reason ..."


def stopped(pipeline: str, streams: Iterable[tuple[str, int, str]]) -> NeedsOperatorError:
    """The error that names a pipeline's stopped streams: label, head and problem of each."""
    listed = list(streams)
    lines = [f"{label} at offset {head}: {problem}" for label, head, problem in listed]
    commands = sorted({resolving(pipeline, label, problem) for label, _, problem in listed})
    return NeedsOperatorError(
        f"{pipeline}: streams are stopped, the others go on:\n    " + "\n    ".join(lines),
        next_step="find out why, then decide what becomes of their offsets; nothing is reset or skipped by itself:\n    "
        + "\n    ".join(commands),
        entry="stream-stopped",
    )
