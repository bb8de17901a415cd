"""Report streams that need an operator: those that are stopped, and those that will soon lose records to retention."""

import logging
from datetime import timedelta

from tideline.flow.advancing import stopped
from tideline.flow.candidates import Survey
from tideline.flow.timeline import Timeline
from tideline.kafka.broker import Broker

log = logging.getLogger(__name__)


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


def warn_of_retention(broker: Broker, found: Survey) -> None:
    """Log a warning if the oldest unread record has used more than half of its topic's retention: records deleted unread are lost."""
    timeline = Timeline(broker, found.now)
    for topic in found.topics:
        # Offsets that retention has deleted already are left out: other checks report them.
        unread = {
            facts.partition: max(stream.next_offset, facts.log_start)
            for stream, its_topic, facts in found.ready.values()
            if its_topic.topic == topic.topic and stream.next_offset < facts.end
        }
        if topic.retention_ms is None or not unread:
            continue
        half = timedelta(milliseconds=topic.retention_ms / 2)
        for partition in sorted(timeline.older(topic.topic, unread, found.now - half)):
            log.warning(
                "%s/%s: the oldest unread record, offset %s, has used more than half of the topic's retention of %s: "
                "load it soon, or raise retention.ms",
                topic.topic,
                partition,
                unread[partition],
                timedelta(milliseconds=topic.retention_ms),
            )
