"""adopt_topic: follow a topic as it is now, after it was deleted and created again, or after it came back."""

from collections.abc import Iterable

from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import TopicFacts
from tideline.domain.offsets import LAST, OffsetRange
from tideline.domain.streams import RETURNED, Stream, is_other
from tideline.errors import FatalError
from tideline.flow import candidates
from tideline.flow.operator_decisions import READING, abandon_on, deciding
from tideline.kafka.broker import Broker
from tideline.ledger import decisions, reservations
from tideline.ledger.connection import Ledger


def adopt_topic(ledger: Ledger, broker: Broker, pipeline: Pipeline, topic: str, *, reason: str) -> list[str]:
    """Follow a topic as it is now, after it was created again: old streams retire with their history, new ones begin at their first offset.

    Streams of a topic id that had retired and is there again, as after a restore of the brokers, go on where their heads stand.

    Raises:
        FatalError: The topic is the one that the ledger follows, is not there, or is none of the pipeline's.
        NeedsOperatorError: Another cluster answers.
        RetryableError: Broker or ledger did not answer.
    """
    with deciding(ledger, pipeline.name, reason):
        known = reservations.streams(ledger, pipeline.name)
        topics = broker.topic_facts()
        followed = {stream.cluster_id for stream in known if not stream.retired}
        candidates.check_cluster(broker, pipeline.name, followed, topics)
        decisions.set_reason(ledger, reason)
        now = next((facts for facts in topics if facts.topic == topic), None)
        if now is None:
            raise FatalError(
                f"{pipeline.name}: topic {topic} is not there, or the declaration does not name it",
                next_step="create it, or correct source.topics in the declaration",
                entry="topic-missing",
            )
        old = [stream for stream in known if stream.topic == topic and not stream.retired and is_other(stream, now)]
        back = [stream for stream in known if stream.topic == topic and _is_back(stream, now)]
        if not old and not back:
            raise FatalError(
                f"{pipeline.name}: the ledger follows topic id {now.topic_id} of {topic} already: there is nothing to adopt",
                next_step=f"look at its streams: tideline streams {pipeline.name}",
                entry="nothing-to-decide",
            )
        _retire(ledger, old)
        _go_on(ledger, back)
        ids = {(stream.topic_id, stream.partition) for stream in known}
        begun = [
            reservations.start_stream(ledger, pipeline.name, now, facts, facts.log_start)
            for facts in now.partitions
            if (now.topic_id, facts.partition) not in ids
        ]
    return [
        *(f"{stream.label} of topic id {stream.topic_id}: retired at {stream.next_offset}" for stream in old),
        *(f"{stream.label} of topic id {now.topic_id}: goes on at {stream.next_offset}" for stream in back),
        *(f"{stream.label} of topic id {now.topic_id}: begins at {stream.next_offset}" for stream in begun),
    ]


def _is_back(stream: Stream, topic: TopicFacts) -> bool:
    """Whether the stream had retired and its topic is there again; a plan may have said so already."""
    return (stream.retired or stream.stopped_because == RETURNED) and not is_other(stream, topic)


def _go_on(ledger: Ledger, back: Iterable[Stream]) -> None:
    for stream in back:
        if stream.retired:
            decisions.bring_back(ledger, stream, RETURNED)
        decisions.resume(ledger, stream, accepted_end=stream.accepted_end)


def _retire(ledger: Ledger, streams: Iterable[Stream]) -> None:
    for stream in streams:
        abandon_on(ledger, stream, OffsetRange(0, LAST), READING)
        decisions.retire(ledger, stream)
