"""claim, check_source, publish: the verbs that the Spark job calls before and after it reads and stages a batch."""

import logging
import time
from collections.abc import Mapping

from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.domain.states import BatchKind, BatchState
from tideline.domain.streams import identity_problem, range_problem
from tideline.errors import NeedsOperatorError
from tideline.flow.advancing import resolving
from tideline.flow.surveying import check_cluster
from tideline.kafka.broker import Broker
from tideline.ledger import attempts, publishing, reservations, staged
from tideline.ledger.abandoning import STALE_AFTER_SECONDS
from tideline.ledger.attempts import Attempt, Held, Range, Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.folding_turns import Behind
from tideline.ledger.publishing import Counts, InsertOutput

log = logging.getLogger(__name__)

REJECTS_THAT_COUNT = 100
"""Fewer rejects than this never fail a batch, whatever their share of it: one bad record must not stop a topic with few records."""


def claim(
    ledger: Ledger,
    batch_id: int,
    writer: Writer,
    *,
    pipeline: str | None = None,
    stale_after_seconds: float = STALE_AFTER_SECONDS,
    poll_seconds: float = 2.0,
) -> Attempt | BatchState:
    """Claim a batch, and wait while another run's attempt is alive. Return the batch's state instead if there is nothing left to write.

    A claim is always safe, because only the newest attempt can publish. The wait only saves work. A stateful batch also waits for the batches that
    are folded before it.

    Raises:
        RetryableError: A batch is folded before this one, and no process has written it for `stale_after_seconds`.
        NeedsOperatorError: The run was not given this batch, or its records are folded already.
    """
    logged: Held | Behind | None = None
    while isinstance(
        claimed := attempts.claim(ledger, batch_id, writer, pipeline=pipeline, stale_after_seconds=stale_after_seconds),
        Held | Behind,
    ):
        if logged is None or type(logged) is not type(claimed):
            _log_wait(batch_id, claimed)
        logged = claimed
        time.sleep(poll_seconds)
    return claimed


def _log_wait(batch_id: int, found: Held | Behind) -> None:
    if isinstance(found, Behind):
        log.info("batch %s waits for batch %s of %s, which is folded before it", batch_id, found.batch_id, found.holder)
    else:
        log.info(
            "batch %s is being written by %s; waiting until it ends or its heartbeat is too old", batch_id, found.holder
        )


def check_source(ledger: Ledger, broker: Broker, attempt: Attempt) -> None:
    """Make sure that every range of the attempt can be read from its first offset to its last. Called before a read, and after one that failed.

    Spark does not notice a topic that was created again. It waits half a minute for offsets that will never exist, and does not say which are gone.
    Streams that are found inconsistent stop here, so that the next plan continues with the others. A re-drive does not read Kafka and is not checked.

    Raises:
        NeedsOperatorError: Offsets are gone, or the topic was created again. The message names each range.
        RetryableError: The broker did not answer.
    """
    if attempt.kind is not BatchKind.REDRIVE:
        _check(ledger, broker, attempt, whole=True)


def _check(ledger: Ledger, broker: Broker, attempt: Attempt, *, whole: bool) -> dict[int, PartitionFacts]:
    topics = {topic.topic: topic for topic in broker.topic_facts()}
    check_cluster(broker, attempt.pipeline, {piece.cluster_id for piece in attempt.ranges}, topics.values())
    problems = {}
    for piece in attempt.ranges:
        problem = _problem(piece, topics.get(piece.topic), whole=whole)
        if problem is not None:
            problems[piece] = problem
    if problems:
        raise _unreadable(ledger, attempt, problems)
    return {piece.stream_id: topics[piece.topic].partition(piece.partition) for piece in attempt.ranges}


def _problem(piece: Range, topic: TopicFacts | None, *, whole: bool) -> str | None:
    other = identity_problem(topic, cluster_id=piece.cluster_id, topic_id=piece.topic_id, partition=piece.partition)
    if other is not None or topic is None or not whole:
        return other
    return range_problem(piece.offsets, topic.partition(piece.partition))


def _unreadable(ledger: Ledger, attempt: Attempt, problems: Mapping[Range, str]) -> NeedsOperatorError:
    if attempt.kind is BatchKind.LIVE:
        with ledger.transaction():
            batch = attempts.find(ledger, attempt.batch_id)
            # An attempt that was taken over and still runs must not stop streams again that an operator has resumed since.
            if batch and (batch["state"], batch["attempt"]) == (BatchState.WRITING, attempt.attempt):
                for piece, problem in problems.items():
                    reservations.stop_stream(ledger, piece.stream_id, problem)
        step = "the next run loads the other streams; decide about these: " + "; ".join(
            sorted(
                {
                    resolving(attempt.pipeline, f"{piece.topic}/{piece.partition}", problem)
                    for piece, problem in problems.items()
                }
            )
        )
    else:
        step = f"give it up: tideline abandon {attempt.batch_id} --reason ...; then request what Kafka still holds"
    return NeedsOperatorError(
        f"{attempt} cannot be read as it was planned:\n    "
        + "\n    ".join(f"{piece}: {problem}" for piece, problem in problems.items()),
        next_step=step,
        entry="stream-stopped" if attempt.kind is BatchKind.LIVE else "offsets-gone-under-a-batch",
    )


def publish(
    ledger: Ledger,
    broker: Broker,
    pipeline: Pipeline,
    attempt: Attempt,
    insert_output: InsertOutput,
    *,
    filtered_by_difference: bool,
) -> list[Counts]:
    """Check the topics at the broker again, then make a staged attempt visible in one transaction.

    Raises:
        SupersededError: A newer attempt holds the batch. Nothing was changed.
        NeedsOperatorError: The topic was created again since the plan, offsets are missing, or too many records were rejected.
        RetryableError: The broker or the ledger did not answer, and the batch is not published.
    """
    facts = check_staged(ledger, broker, pipeline, attempt)
    return publishing.publish(
        ledger, attempt, insert_output, facts=facts, filtered_by_difference=filtered_by_difference
    )


def check_staged(ledger: Ledger, broker: Broker, pipeline: Pipeline, attempt: Attempt) -> dict[int, PartitionFacts]:
    """Check what was staged, and the topics at the broker again. Return what the broker reports for each stream, for the publication.

    Raises:
        NeedsOperatorError: The topic was created again since the plan, or too many records were rejected.
        RetryableError: The broker or the ledger did not answer.
    """
    if attempt.kind is BatchKind.REDRIVE:
        return {
            piece.stream_id: PartitionFacts(
                partition=piece.partition, log_start=piece.offsets.start, end=piece.offsets.end
            )
            for piece in attempt.ranges
        }
    _check_rejects(ledger, pipeline, attempt)
    # A topic that was created again since the plan may have returned other records. Retention may delete what was read completely.
    return _check(ledger, broker, attempt, whole=False)


def _check_rejects(ledger: Ledger, pipeline: Pipeline, attempt: Attempt) -> None:
    """Refuse too many rejects: a wrong declaration or transform rejects nearly everything, and to advance over that would look like success."""
    found = staged.count_rejects(ledger, attempt.attempt_id)
    rejected, read = found["n_rejected"], found["n_read"]
    if rejected >= REJECTS_THAT_COUNT and rejected > read * pipeline.rejects.fail_above:
        raise NeedsOperatorError(
            f"{attempt}: {rejected} of {read} records were rejected, more than the declared share of {pipeline.rejects.fail_above:g}; "
            f"most often: {found['reason']}",
            next_step="correct columns or transform.py and run the task again; or, if the records are at fault, raise rejects.fail_above",
            entry="too-many-rejects",
        )
