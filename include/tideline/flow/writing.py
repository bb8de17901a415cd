"""claim, publish: the Spark job calls these around its reading and staging."""

import logging
import time
from collections.abc import Callable, Mapping

from tideline.domain.facts import PartitionFacts
from tideline.domain.states import BatchState
from tideline.errors import NeedsOperatorError
from tideline.kafka import Broker
from tideline.ledger import attempts, publishing
from tideline.ledger.attempts import Attempt, Held, Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Counts
from tideline.pipelines import Pipeline

log = logging.getLogger(__name__)

STALE_AFTER_SECONDS = 60.0
"""After this long without a heartbeat another run takes a batch over. Only saves work: an attempt that was only slow is refused at publish."""
REJECTS_THAT_COUNT = 100
"""Fewer rejects than this never fail a batch, whatever share of it they are: a bad record must not stop a quiet topic."""


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
