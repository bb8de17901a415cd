"""Report streams that need an operator: those that are stopped, wait for a hanging transaction, or will soon lose records to retention."""

import logging
from datetime import timedelta

from tideline.domain.requests import NewRecords, Request, Window
from tideline.flow.advancing import stopped
from tideline.flow.candidates import Survey
from tideline.flow.timeline import HELD, Timeline
from tideline.kafka.broker import Broker

log = logging.getLogger(__name__)


def report(broker: Broker, pipeline: str, found: Survey, *, request: Request, idle: bool) -> list[str]:
    """Log what an operator should know of the streams, and return what belongs to the notes of a plan.

    Args:
        broker: The source.
        pipeline: The name of the pipeline.
        found: The streams.
        request: What was requested. Stopped streams fail a request for new records or a window, if there is nothing else to do.
        idle: Whether there is nothing else to do.

    Raises:
        NeedsOperatorError: Streams are stopped, as above.
    """
    notes = warn_of_retention(broker, found)
    report_stopped(pipeline, found, alone=idle and isinstance(request, NewRecords | Window))
    return notes


def report_stopped(pipeline: str, found: Survey, *, alone: bool) -> None:
    """Log the stopped streams. If they are `alone`, raise instead: the run has nothing else to do.

    Raises:
        NeedsOperatorError: Streams are stopped, and they are `alone`.
    """
    streams = [(stream.label, stream.next_offset, problem) for stream, problem in found.comparison.inconsistent]
    streams += [(stream.label, stream.next_offset, str(stream.stopped_because)) for stream in found.comparison.stopped]
    if streams and alone:
        raise stopped(pipeline, streams)
    for label, head, problem in streams:
        log.error("%s: stopped stream %s at offset %s: %s", pipeline, label, head, problem)


def warn_of_retention(broker: Broker, found: Survey) -> list[str]:
    """Log a warning of each stream that may soon lose records that were not read. Return those of hanging transactions, as notes of the plan.

    Records deleted unread are lost. A transaction that hangs keeps records from being read, and not from being deleted.
    """
    timeline = Timeline(broker, found.now)
    held = timeline.held(found.topics)
    half = {topic.topic: timedelta(milliseconds=topic.retention_ms / 2) for topic in found.topics if topic.retention_ms}
    # Offsets that retention has deleted already are left out: other checks report them.
    unread = {
        (topic.topic, facts.partition): max(stream.next_offset, facts.log_start)
        for stream, topic, facts in found.ready.values()
        if topic.topic in half and (stream.next_offset < facts.end or (topic.topic, facts.partition) in held)
    }
    times = {place: found.now - half[place[0]] for place in unread}
    for place in sorted(timeline.older_unread(unread, times, held)):
        log.warning(
            "%s/%s: the oldest unread record, offset %s, has used more than half of the topic's retention of %s: "
            "load it soon, or raise retention.ms",
            *place,
            unread[place],
            2 * half[place[0]],
        )
    notes = [
        f"{topic.topic}/{facts.partition}: a transaction has been open for more than {HELD // timedelta(minutes=1)} minutes at offset {facts.end}: "
        f"the {facts.n_unstable} offsets behind it cannot be read, and retention deletes them all the same. "
        "Find its producer, and abort it: docs/runbook.md#transaction-hangs"
        for _, topic, facts in found.ready.values()
        if (topic.topic, facts.partition) in held
    ]
    for note in notes:
        log.warning("%s", note)
    return notes
