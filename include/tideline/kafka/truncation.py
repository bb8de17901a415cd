"""Find logs that were truncated and have grown past the head again since the last check. The log end does not show this.

Invariant: the log holds what was planned or read, or its stream stops. Each record has the epoch of the leader that accepted it, and epochs never
fall within a log. The ledger stores the leader epoch of the last check, at which the log reached at least as far as was planned. A record before that
offset with a newer epoch has replaced a record that was lost. If no leader was elected since, no records are read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tideline.domain.facts import PartitionFacts, Place, RecordFacts, TopicFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.streams import Stream, is_other, known_end
from tideline.domain.timestamps import first_late
from tideline.kafka.broker import Broker


@dataclass(frozen=True, slots=True)
class _Known:
    """The part of a log to check: from its present start to its end at the last check, with the leader epoch of that check."""

    log_start: int
    end: int
    leader_epoch: int

    def replaced(self, record: RecordFacts) -> bool:
        return record.leader_epoch is not None and record.leader_epoch > self.leader_epoch


def replaced(broker: Broker, streams: Iterable[Stream], topics: Iterable[TopicFacts]) -> dict[int, OffsetRange]:
    """Return, by stream id, the offsets that now hold other records: from where the log was truncated to its end at the last check.

    Raises:
        RetryableError: The broker did not answer.
    """
    by_name = {topic.topic: topic for topic in topics}
    elected = {}
    for stream in streams:
        topic = by_name.get(stream.topic)
        if topic is not None and not stream.retired and not is_other(stream, topic):
            known = _known(stream, topic.partition(stream.partition))
            if known is not None:
                elected[stream.topic, stream.partition] = (stream.stream_id, known)
    cut = _cut(broker, {place: known for place, (_, known) in elected.items()})
    firsts = _first_replaced(broker, cut)
    return {elected[place][0]: OffsetRange(firsts[place], known.end) for place, (known, _) in cut.items()}


def _known(stream: Stream, facts: PartitionFacts) -> _Known | None:
    """Return the part to check. None if no leader was elected since, or if the log's start or end shows already what is wrong."""
    epoch, end = stream.leader_epoch, known_end(stream)
    if (
        epoch is None
        or facts.leader_epoch is None
        or facts.leader_epoch <= epoch
        or not facts.log_start < end <= facts.end
    ):
        return None
    return _Known(facts.log_start, end, epoch)


def _cut(broker: Broker, parts: Mapping[Place, _Known]) -> dict[Place, tuple[_Known, int]]:
    """Return the parts whose last record has a newer epoch, each with the offset of that record.

    The search steps back over offsets without a record: transaction markers and compacted records.
    """
    cut = {}
    left, step = dict(parts), 1
    while left:
        starts = {place: max(known.log_start, known.end - step) for place, known in left.items()}
        for place, records in broker.records_from(starts, step).items():
            known = left[place]
            before = [record for record in records if record.offset < known.end]
            if before and known.replaced(before[-1]):
                cut[place] = (known, before[-1].offset)
            if before or starts[place] == known.log_start:
                del left[place]
        step *= 4
    return cut


def _first_replaced(broker: Broker, cut: Mapping[Place, tuple[_Known, int]]) -> dict[Place, int]:
    """Return the first offset of a record with a newer epoch in each part.

    It is at most the one where such a record was seen, even if the log has changed again or is gone since.
    """

    def newer(asked: Mapping[Place, int]) -> dict[Place, bool]:
        looked_at = broker.records_from(asked, 1)
        return {place: not records or cut[place][0].replaced(records[0]) for place, records in looked_at.items()}

    return first_late(newer, {place: (known.log_start, seen) for place, (known, seen) in cut.items()})
