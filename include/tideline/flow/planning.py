"""plan: give a run its batches. What may be planned is found in `candidates`."""

import logging
from datetime import datetime

from tideline.domain.states import BatchKind
from tideline.domain.streams import Comparison
from tideline.flow import candidates
from tideline.flow.advancing import stopped
from tideline.kafka import Broker
from tideline.ledger import heads, reservations
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline.pipelines import Pipeline

log = logging.getLogger(__name__)


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
        raise stopped(pipeline.name, lines)
    for line in lines:
        log.error("%s: stopped stream %s", pipeline.name, line)
