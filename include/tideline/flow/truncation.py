"""Finds logs that were cut and have grown past the head again since somebody looked: their ends say nothing about it.

The law: what was planned or read is what the log holds, or its stream stops. Records keep the epoch of the leader that took them, and in a log these
never fall. The ledger keeps the epoch of its last look, when the log reached at least as far as was planned. A record before that offset of a newer
epoch has taken the place of one that was lost. As long as no leader was elected nothing is asked.
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
    """What a log held at the last look."""

    log_start: int
    end: int
    leader_epoch: int

    def replaced(self, record: RecordFacts) -> bool:
        return record.leader_epoch is not None and record.leader_epoch > self.leader_epoch


def replaced(broker: Broker, streams: Iterable[Stream], topics: Iterable[TopicFacts]) -> dict[int, OffsetRange]:
    """By stream id, the offsets that were given to other records since: from where the log was cut to where it was known to end.

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
    return {
        elected[place][0]: OffsetRange(_begin(broker, place, known, newer), known.end)
        for place, (known, newer) in cut.items()
    }


def _known(stream: Stream, facts: PartitionFacts) -> _Known | None:
    """What may have been replaced; None where no leader was elected since, or the log's end or start says what is wrong."""
    epoch, end = stream.leader_epoch, known_end(stream)
    if (
        epoch is None
        or facts.leader_epoch is None
        or facts.leader_epoch <= epoch
        or not facts.log_start < end <= facts.end
    ):
        return None
    return _Known(facts.log_start, end, epoch)


def _cut(broker: Broker, asked: Mapping[Place, _Known]) -> dict[Place, tuple[_Known, int]]:
    """Those whose last record before the end is a newer one, with its offset.

    Offsets without a record are stepped over: markers of transactions, compacted ones.
    """
    cut = {}
    left, step = dict(asked), 1
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


def _begin(broker: Broker, place: Place, known: _Known, newer: int) -> int:
    """The first offset of a newer record: at most `newer`, where one was seen, though the log may have changed again or be gone since."""

    def is_newer(offset: int) -> bool:
        records = broker.records_from({place: offset}, 1)[place]
        return not records or known.replaced(records[0])

    return first_late(is_newer, known.log_start, newer)
