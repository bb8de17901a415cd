"""Decisions of an operator about a topic that has changed: follow it after it was created again, load the partitions that it has gained."""

from collections.abc import Iterable

from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import TopicFacts
from tideline.domain.offsets import LAST, OffsetRange
from tideline.domain.streams import RETURNED, Stream, is_of_growth, is_other
from tideline.errors import FatalError
from tideline.flow import settling, surveying
from tideline.flow.batch_decisions import READING, abandon_on, deciding
from tideline.flow.settling import Seals
from tideline.kafka.broker import Broker
from tideline.ledger import decisions, reservations
from tideline.ledger.connection import Ledger


def adopt_topic(
    ledger: Ledger, broker: Broker, pipeline: Pipeline, topic: str, *, reason: str, dry_run: bool = False
) -> list[str]:
    """Follow the present incarnation of a topic: retire the streams of the old one and begin new streams at their first offset.

    Retired streams keep their history. The present topic id may have retired earlier, as after a restore of the brokers: then its streams continue
    at their heads. With `dry_run`, nothing is changed.

    Returns:
        One line for each stream that was retired, continued or begun.

    Raises:
        FatalError: The ledger follows this topic id already, the topic does not exist, the declaration does not name it, or the reason is blank.
        NeedsOperatorError: Another cluster answers.
        RetryableError: The broker or the ledger did not answer.
    """

    def decide(seals: Seals) -> list[str]:
        with deciding(ledger, pipeline.name, reason, dry_run=dry_run):
            known = reservations.streams(ledger, pipeline.name)
            topics = broker.topic_facts()
            followed = {stream.cluster_id for stream in known if not stream.retired}
            surveying.check_cluster(broker, pipeline.name, followed, topics)
            decisions.set_reason(ledger, reason)
            current = next((facts for facts in topics if facts.topic == topic), None)
            if current is None:
                raise FatalError(
                    f"{pipeline.name}: topic {topic} is not there, or the declaration does not name it",
                    next_step="create it, or correct source.topics in the declaration",
                    entry="topic-missing",
                )
            old = [
                stream for stream in known if stream.topic == topic and not stream.retired and is_other(stream, current)
            ]
            returned = [stream for stream in known if stream.topic == topic and _has_returned(stream, current)]
            if not old and not returned:
                raise FatalError(
                    f"{pipeline.name}: the ledger follows topic id {current.topic_id} of {topic} already: there is nothing to adopt",
                    next_step=f"look at its streams: tideline streams {pipeline.name}",
                    entry="nothing-to-decide",
                )
            _retire(ledger, old, seals)
            _resume(ledger, returned)
            ids = {(stream.topic_id, stream.partition) for stream in known}
            begun = [
                reservations.start_stream(ledger, pipeline.name, current, facts, facts.log_start)
                for facts in current.partitions
                if (current.topic_id, facts.partition) not in ids
            ]
        return [
            *(f"{stream.label} of topic id {stream.topic_id}: retired at {stream.next_offset}" for stream in old),
            *(f"{stream.label} of topic id {current.topic_id}: goes on at {stream.next_offset}" for stream in returned),
            *(f"{stream.label} of topic id {current.topic_id}: begins at {stream.next_offset}" for stream in begun),
        ]

    return settling.sealed(ledger, decide, pipeline=pipeline, dry_run=dry_run)


def _has_returned(stream: Stream, topic: TopicFacts) -> bool:
    """Return whether the stream is of this topic and had retired. A plan may have stopped it already because its topic is back."""
    return (stream.retired or stream.stopped_because == RETURNED) and not is_other(stream, topic)


def _resume(ledger: Ledger, returned: Iterable[Stream]) -> None:
    for stream in returned:
        if stream.retired:
            decisions.bring_back(ledger, stream, RETURNED)
        decisions.resume(ledger, stream, accepted_end=stream.accepted_end)


def _retire(ledger: Ledger, streams: Iterable[Stream], seals: Seals) -> None:
    for stream in streams:
        abandon_on(ledger, stream, OffsetRange(0, LAST), READING, seals=seals)
        decisions.retire(ledger, stream)


def accept_partitions(
    ledger: Ledger, broker: Broker, pipeline: Pipeline, topic: str, *, reason: str, dry_run: bool = False
) -> list[str]:
    """Resume the streams of a topic that stopped because partitions were added to it. With `dry_run`, nothing is changed.

    Returns:
        One line for each stream.

    Raises:
        FatalError: No stream of the topic has stopped for that, or the reason is blank.
        NeedsOperatorError: Another cluster answers.
        RetryableError: The broker or the ledger did not answer.
    """
    with deciding(ledger, pipeline.name, reason, dry_run=dry_run) as now:
        found = surveying.survey(ledger, broker, pipeline, now)
        decisions.set_reason(ledger, reason)  # after the survey: streams that it stops have their own reason
        problems = [*found.comparison.inconsistent, *((one, one.stopped_because) for one in found.comparison.stopped)]
        held = [stream for stream, problem in problems if stream.topic == topic and is_of_growth(problem)]
        if not held:
            raise FatalError(
                f"{pipeline.name}: no partition of {topic} waits for a decision: none was added",
                next_step=f"look at its streams: tideline streams {pipeline.name}",
                entry="nothing-to-decide",
            )
        for stream in held:
            decisions.resume(ledger, stream, accepted_end=stream.accepted_end)
    return [
        f"{stream.label}: goes on at {stream.next_offset}" for stream in sorted(held, key=lambda one: one.partition)
    ]
