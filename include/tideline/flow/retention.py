"""What a plan says of streams that need a person: those that are stopped, and those that will lose records soon."""

import logging
from datetime import timedelta

from tideline.flow.advancing import stopped
from tideline.flow.candidates import Survey
from tideline.flow.timeline import Timeline
from tideline.kafka.broker import Broker

log = logging.getLogger(__name__)


def report_stopped(pipeline: str, found: Survey, *, alone: bool) -> None:
    """Name the stopped streams in the log.

    Raises:
        NeedsOperatorError: There are some, and they are `alone`: the run has nothing else to do.
    """
    streams = [(stream.label, stream.next_offset, problem) for stream, problem in found.comparison.inconsistent]
    streams += [(stream.label, stream.next_offset, str(stream.stopped_because)) for stream in found.comparison.stopped]
    if streams and alone:
        raise stopped(pipeline, streams)
    for label, head, problem in streams:
        log.error("%s: stopped stream %s at offset %s: %s", pipeline, label, head, problem)


def warn_of_retention(broker: Broker, found: Survey) -> None:
    """Say in time that the oldest unread record has used more than half of its topic's retention: what is deleted unread is lost."""
    timeline = Timeline(broker, found.now)
    for topic in found.topics:
        # What is planned and gone is another matter, and told elsewhere.
        unread = {
            facts.partition: max(stream.next_offset, facts.log_start)
            for stream, of, facts in found.ready.values()
            if of.topic == topic.topic and stream.next_offset < facts.end
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
