"""What a plan may reserve: streams compared with the broker, new ones begun, and what is free cut into batches.

Called by `flow.plan` alone, inside its transaction and under the pipeline's lock: facts from before the lock could be
older than what another planner has reserved since, and then a healthy log would seem to have been cut.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.domain.offsets import OffsetRange, subtract
from tideline.domain.planning import Limits, cut
from tideline.domain.streams import Comparison, Stream, compare
from tideline.errors import NeedsOperatorError
from tideline.kafka import Broker
from tideline.ledger import reservations
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Reservation
from tideline.pipelines import Pipeline


def find(
    ledger: Ledger, broker: Broker, pipeline: Pipeline, until: datetime | None
) -> tuple[Comparison, list[dict[int, Reservation]]]:
    """Stop what is sick, begin what is new, and return the comparison with new batches, each with ranges by stream id.

    Raises:
        RetryableError: The broker did not answer.
        FatalError: The declaration does not fit the cluster: a topic is missing, a login is refused.
        NeedsOperatorError: Another cluster answers.
    """
    topics = broker.topic_facts()
    ends = _ends(broker, topics, until)
    comparison = _compare(ledger, pipeline, topics)
    ready = [*comparison.ready, *_start_streams(ledger, broker, pipeline, comparison)]
    return comparison, _new_batches(pipeline, ready, ends)


def _ends(broker: Broker, topics: Sequence[TopicFacts], until: datetime | None) -> dict[tuple[str, int], int]:
    """The offset before which each partition may be planned."""
    if until is None:
        return {(topic.topic, facts.partition): facts.end for topic in topics for facts in topic.partitions}
    return {
        (topic.topic, partition): offset
        for topic in topics
        for partition, offset in broker.offsets_at(
            topic.topic, [facts.partition for facts in topic.partitions], until
        ).items()
    }


def _compare(ledger: Ledger, pipeline: Pipeline, topics: Sequence[TopicFacts]) -> Comparison:
    known = reservations.streams(ledger, pipeline.name)
    clusters = {stream.cluster_id for stream in known}
    for topic in topics:
        if clusters and topic.cluster_id not in clusters:
            raise NeedsOperatorError(
                f"{pipeline.name}: expected cluster {', '.join(sorted(clusters))} at the declared address, "
                f"found cluster {topic.cluster_id}",
                next_step="point source.bootstrap_servers at the cluster whose offsets these are; nothing was planned",
            )
    comparison = compare(known, topics)
    for stream, problem in comparison.sick:
        reservations.stop_stream(ledger, stream, problem)
    return comparison


def _start_streams(
    ledger: Ledger, broker: Broker, pipeline: Pipeline, comparison: Comparison
) -> list[tuple[Stream, TopicFacts, PartitionFacts]]:
    """New partitions: at the declared start, or at their first offset where the topic was known and has grown."""
    grown = {topic.topic for _, topic, _ in comparison.ready} | {stream.topic for stream, _ in comparison.sick}
    grown |= {stream.topic for stream in comparison.stopped}
    started = []
    for topic, facts in comparison.unseen:
        start = facts.log_start
        if topic.topic not in grown and pipeline.source.start == "latest":
            start = facts.end
        elif topic.topic not in grown and isinstance(pipeline.source.start, datetime):
            start = broker.offsets_at(topic.topic, [facts.partition], pipeline.source.start)[facts.partition]
        stream = reservations.start_stream(ledger, pipeline.name, topic, facts.partition, start)
        started.append((stream, topic, facts))
    return started


def _new_batches(
    pipeline: Pipeline,
    ready: Iterable[tuple[Stream, TopicFacts, PartitionFacts]],
    ends: Mapping[tuple[str, int], int],
) -> list[dict[int, Reservation]]:
    streams = {stream.stream_id: (stream, topic, facts) for stream, topic, facts in ready}
    free = {}
    for stream_id, (stream, topic, facts) in streams.items():
        end = min(ends[topic.topic, facts.partition], facts.end)
        if end > stream.next_offset:
            free[stream_id] = list(subtract(OffsetRange(stream.next_offset, end), stream.reserved))
    limits = Limits(batch_records=pipeline.limits.batch_records, run_batches=pipeline.limits.run_batches)
    return [
        {
            stream_id: Reservation(
                offsets=offsets,
                gaps_allowed=streams[stream_id][1].compacted or pipeline.source.gaps == "allowed",
                facts=streams[stream_id][2],
            )
            for stream_id, offsets in batch.items()
        }
        for batch in cut(free, limits)
    ]
