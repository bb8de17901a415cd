"""The verbs of Tideline, in the order in which a batch meets them: plan, claim, publish, advance. DAGs and the Spark job call these and nothing else.

Each verb is safe to call again at any time, after any crash, by any number of processes at once: the ledger decides, in one transaction per verb.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from tideline import candidates
from tideline.domain.facts import PartitionFacts
from tideline.domain.states import BatchKind, BatchState
from tideline.domain.streams import Comparison
from tideline.errors import NeedsOperatorError
from tideline.kafka import Broker
from tideline.ledger import attempts, heads, publishing, reservations
from tideline.ledger.attempts import Attempt, Held, Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Counts
from tideline.ledger.reservations import Run
from tideline.pipelines import Pipeline

log = logging.getLogger(__name__)

STALE_AFTER_SECONDS = 60.0
"""After this long without a heartbeat another run takes a batch over. Only saves work: an attempt that was only slow is refused at publish."""
REJECTS_THAT_COUNT = 100
"""Fewer rejects than this never fail a batch, whatever share of it they are: a bad record must not stop a quiet topic."""


# plan -----------------------------------------------------------------------------------------------------------------


def plan(ledger: Ledger, broker: Broker, pipeline: Pipeline, run: Run, *, until: datetime | None) -> list[int]:
    """Give `run` its batches: open ones of earlier runs first, then what is new, reserved in one transaction.

    The law: no offset is ever in two batches, and none between a head and a planned end is in no batch. The crash that would break it is one
    between two reservations, and the race one between two planners: so all is one transaction, under the pipeline's lock.

    Args:
        ledger: The ledger's session.
        broker: The pipeline's source.
        pipeline: What to plan for.
        run: Who asks. Once it has batches, it gets the same ones again, whatever has happened to them since.
        until: Records from this moment on are left for later; None takes all that may be read now.

    Returns:
        Batch ids in the order in which to write them; none when there is nothing to do.

    Raises:
        RetryableError: Broker or ledger did not answer.
        FatalError: The declaration does not fit the cluster: a topic is missing, a login is refused.
        NeedsOperatorError: Streams are stopped and there is nothing else to do, or another cluster answers.
    """
    with ledger.transaction():
        given = reservations.batches_of_run(ledger, pipeline.name, run)
    if given:
        return given
    # What an earlier run published and did not get to advance is finished here, in case this run finds nothing else to do.
    heads.advance_published(ledger, pipeline.name)
    with ledger.transaction():
        reservations.lock_pipeline(ledger, pipeline.name)
        given = reservations.batches_of_run(ledger, pipeline.name, run)
        if given:
            return given
        comparison, new = candidates.find(ledger, broker, pipeline, until)
        batch_ids = reservations.open_batches(ledger, pipeline.name)
        batch_ids += reservations.reserve(ledger, pipeline.name, run, BatchKind.LIVE, new)
        reservations.join_run(ledger, pipeline.name, run, batch_ids)
    _report_stopped(pipeline, comparison, batch_ids)
    return batch_ids


def _report_stopped(pipeline: Pipeline, comparison: Comparison, batch_ids: list[int]) -> None:
    lines = [f"{stream.label} at offset {stream.next_offset}: {problem}" for stream, problem in comparison.sick]
    lines += [
        f"{stream.label} at offset {stream.next_offset}: {stream.stopped_because}" for stream in comparison.stopped
    ]
    if lines and not batch_ids:
        raise _stopped(pipeline.name, lines)
    for line in lines:
        log.error("%s: stopped stream %s", pipeline.name, line)


def _stopped(pipeline: str, lines: Iterable[str]) -> NeedsOperatorError:
    return NeedsOperatorError(
        f"{pipeline}: streams are stopped, the others go on:\n    " + "\n    ".join(lines),
        next_step="decide what becomes of their offsets: docs/guarantees.md, section 'When a stream stops'. Nothing is reset or skipped by itself",
    )


# write: the Spark job calls these around its reading and staging ---------------------------------------------------------


def claim(
    ledger: Ledger,
    batch_id: int,
    writer: Writer,
    *,
    stale_after_seconds: float = STALE_AFTER_SECONDS,
    poll_seconds: float = 2.0,
) -> Attempt | BatchState:
    """Claim a batch, waiting while another run's attempt is alive; a state instead when there is nothing left to write.

    Claiming is always safe, since only the newest attempt can publish; the wait only saves work.
    """
    told = False
    while isinstance(
        claimed := attempts.claim(ledger, batch_id, writer, stale_after_seconds=stale_after_seconds), Held
    ):
        if not told:
            log.info(
                "batch %s is being written by %s; waiting for it to end or to fall silent", batch_id, claimed.holder
            )
            told = True
        time.sleep(poll_seconds)
    return claimed


def publish(
    ledger: Ledger,
    broker: Broker,
    pipeline: Pipeline,
    attempt: Attempt,
    insert_output: Callable[[Ledger], Mapping[int, int]],
    *,
    filtered_by_difference: bool,
) -> list[Counts]:
    """Ask the broker again, then make a staged attempt visible in one transaction.

    Raises:
        SupersededError: A newer attempt holds the batch. Nothing was changed.
        NeedsOperatorError: The topic was created again since the plan, offsets are missing, or too many records were rejected.
        RetryableError: Broker or ledger did not answer, and the batch is not published.
    """
    _check_rejects(ledger, pipeline, attempt)
    facts = _facts_after(broker, attempt)
    return publishing.publish(
        ledger, attempt, insert_output, facts=facts, filtered_by_difference=filtered_by_difference
    )


def _check_rejects(ledger: Ledger, pipeline: Pipeline, attempt: Attempt) -> None:
    """A wrong declaration or transform rejects nearly everything; to advance over that would look like success."""
    with ledger.transaction():
        found = ledger.rows("count_rejects", attempt_id=attempt.attempt_id)[0]
    rejected, read = found["n_rejected"], found["n_read"]
    if rejected >= REJECTS_THAT_COUNT and rejected > read * pipeline.rejects.fail_above:
        raise NeedsOperatorError(
            f"{attempt}: {rejected} of {read} records were rejected, more than the declared share of {pipeline.rejects.fail_above:g}; "
            f"most often: {found['reason']}",
            next_step="correct columns or transform.py and run the task again; or, if the records are at fault, raise rejects.fail_above",
        )


def _facts_after(broker: Broker, attempt: Attempt) -> dict[int, PartitionFacts]:
    """What the broker says of each range's stream now; a topic created again since the plan may have given other records."""
    topics = {topic.topic: topic for topic in broker.topic_facts()}
    facts = {}
    for piece in attempt.ranges:
        topic = topics.get(piece.topic)
        found = (topic.cluster_id, topic.topic_id) if topic else None
        if topic is None or found != (piece.cluster_id, piece.topic_id):
            raise NeedsOperatorError(
                f"{attempt} {piece}: expected topic id {piece.topic_id} in cluster {piece.cluster_id}, found {found}",
                next_step="the topic was deleted or created again while the batch was written; docs/guarantees.md, section 'When a stream stops'",
            )
        facts[piece.stream_id] = next(facts for facts in topic.partitions if facts.partition == piece.partition)
    return facts


# advance --------------------------------------------------------------------------------------------------------------


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
    stopped = heads.stopped_streams(ledger, pipeline)
    if stopped:
        raise _stopped(pipeline, stopped)
    return advanced
