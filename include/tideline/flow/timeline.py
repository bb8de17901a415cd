"""Find where a time begins in the partitions of topics, also if records have wrong timestamps.

Invariant: no record's timestamp stops a partition. A broker answers with the first record whose timestamp is at or after the time. A record with a
timestamp in the year 2099 is after every such time. If it were a boundary, every later run would end before it and find nothing new.
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

_RECORDS_PER_PLACE = 100
"""How many records to read at one place. If all of these are ahead of the clock, the other records are after them."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Finds times in partitions, by what a broker says at one moment."""

    broker: Broker
    now: datetime
    """The clock. A record with a later timestamp is ahead of it."""

    def run_ends(
        self, topic: str, partitions: Iterable[PartitionFacts], when: datetime, *, heads: Mapping[int, int]
    ) -> dict[int, int]:
        """Return, by partition, where a run for new records ends: at the first record at or after `when`, or at the last stable offset.

        A record that is ahead of the clock is no boundary. The run then takes everything up to the last stable offset. This needs no search through
        records and loses nothing, because the next run begins where this one ends.
        """
        by_number = {facts.partition: facts for facts in partitions}
        ends = {}
        for number, found in self.broker.offsets_at(topic, by_number, when).items():
            end = by_number[number].end
            ends[number] = end if self._is_ahead(found) else min(found.offset, end)
            # A record before the head stays in the log, but the run that loaded it has logged the warning already.
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
        """Return, by partition, where `when` begins: at the first record at or after it that is not ahead of the clock, or the last stable offset.

        `floors` says, by partition, before which offset the result need not be exact.
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
                    topic, number, found, f"searched after it: {when.isoformat()} begins at offset {begins[number]}"
                )
        return begins

    def older(self, topic: str, offsets: Mapping[int, int], when: datetime) -> set[int]:
        """Return the partitions whose next record, at or after the given offset, is older than `when`."""
        found = self.broker.offsets_at(topic, offsets, when)
        before = {number for number, offset in offsets.items() if found[number].offset > offset}
        unknown = {number for number in offsets.keys() - before if self._is_ahead(found[number])}
        if not unknown:
            return before
        looked_at = self.broker.records_from(
            {(topic, number): offsets[number] for number in unknown}, _RECORDS_PER_PLACE
        )
        return before | {place[1] for place, records in looked_at.items() if is_late(records, when, self.now) is False}

    def _is_late(self, when: datetime, topic: str, partition: int, offset: int) -> bool:
        records = self.broker.records_from({(topic, partition): offset}, _RECORDS_PER_PLACE)[topic, partition]
        return is_late(records, when, self.now) is True

    def _is_ahead(self, found: FoundOffset) -> bool:
        return found.timestamp is not None and is_ahead(found.timestamp, self.now)

    @staticmethod
    def _warn(topic: str, partition: int, found: FoundOffset, consequence: str) -> None:
        log.warning(
            "%s/%s: the record at offset %s carries %s, which is in the future: %s",
            topic,
            partition,
            found.offset,
            written(found.timestamp or 0),
            consequence,
        )
