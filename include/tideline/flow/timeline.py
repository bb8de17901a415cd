"""Where a time lies in the partitions of topics, whatever their records' timestamps say.

The law: no record's timestamp stops a partition. A broker answers with the first record that is as late as the time, and a record of the year 2099 is
as late as all of them: taken at its word, every later run would end before it and find nothing new.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from tideline.domain.facts import FoundOffset, PartitionFacts
from tideline.domain.timestamps import first_late, is_ahead, is_late, written
from tideline.kafka.broker import Broker

log = logging.getLogger(__name__)

_ENOUGH = 100
"""Records to look at in one place: where so many in a row are ahead of the clock, the others lie behind them."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The times of records, by what a broker says at one moment."""

    broker: Broker
    now: datetime
    """The clock: a record that is later is ahead of it."""

    def run_ends(
        self, topic: str, partitions: Iterable[PartitionFacts], when: datetime, *, heads: Mapping[int, int]
    ) -> dict[int, int]:
        """By partition, where a run for new records ends: at the first record as late as `when`, or at the last stable offset.

        A record that is ahead of the clock is no boundary. The run then takes all that may be read: that needs no look at records and loses nothing,
        for the next run begins where this one ends.
        """
        by_number = {facts.partition: facts for facts in partitions}
        ends = {}
        for number, found in self.broker.offsets_at(topic, by_number, when).items():
            end = by_number[number].end
            ends[number] = end if self._is_ahead(found) else min(found.offset, end)
            # One that is loaded stays in the log, and was named when it was new.
            if self._is_ahead(found) and heads[number] <= found.offset < end:
                self._warn(topic, number, found, f"it is loaded, and the run ends at the last stable offset, {end}")
        return ends

    def edges(
        self,
        topic: str,
        partitions: Iterable[PartitionFacts],
        when: datetime,
        *,
        floors: Mapping[int, int] | None = None,
    ) -> dict[int, int]:
        """By partition, where a time begins: at the first record as late as `when` that is not ahead of the clock, or at the last stable offset.

        `floors` says, by partition, before which offset it need not be known.
        """
        by_number = {facts.partition: facts for facts in partitions}
        begins = {}
        for number, found in self.broker.offsets_at(topic, by_number, when).items():
            end = by_number[number].end
            begins[number] = min(found.offset, end)
            if self._is_ahead(found) and found.offset < end:
                start = max(found.offset, (floors or {}).get(number, 0))
                begins[number] = first_late(partial(self._is_late, when, topic, number), start, end)
                self._warn(
                    topic, number, found, f"looked behind it: {when.isoformat()} begins at offset {begins[number]}"
                )
        return begins

    def older(self, topic: str, offsets: Mapping[int, int], when: datetime) -> set[int]:
        """The partitions whose next record, from an offset on, is older than `when`."""
        found = self.broker.offsets_at(topic, offsets, when)
        before = {number for number, offset in offsets.items() if found[number].offset > offset}
        unknown = {number for number in offsets.keys() - before if self._is_ahead(found[number])}
        if not unknown:
            return before
        looked_at = self.broker.records_from({(topic, number): offsets[number] for number in unknown}, _ENOUGH)
        return before | {place[1] for place, records in looked_at.items() if is_late(records, when, self.now) is False}

    def _is_late(self, when: datetime, topic: str, partition: int, offset: int) -> bool:
        records = self.broker.records_from({(topic, partition): offset}, _ENOUGH)[topic, partition]
        return is_late(records, when, self.now) is True

    def _is_ahead(self, found: FoundOffset) -> bool:
        return found.timestamp is not None and is_ahead(found.timestamp, self.now)

    @staticmethod
    def _warn(topic: str, partition: int, found: FoundOffset, then: str) -> None:
        log.warning(
            "%s/%s: the record at offset %s carries %s, which has not come yet: %s",
            topic,
            partition,
            found.offset,
            written(found.timestamp or 0),
            then,
        )
