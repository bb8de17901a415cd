"""Find where a time begins in the partitions of topics, also if records have wrong timestamps.

Invariant: no record's timestamp stops a partition. A broker answers with the first record whose timestamp is at or after the time. A record with a
timestamp in the year 2099 is after every such time. If it were a boundary, every later run would end before it and find nothing new.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from tideline.domain.facts import FoundOffset, Place, TopicFacts
from tideline.domain.timestamps import first_late, is_ahead, is_late, written
from tideline.kafka.broker import Broker

log = logging.getLogger(__name__)

_RECORDS_PER_PLACE = 100
"""How many records to read at one place. If all of these are ahead of the clock, the other records are after them."""


HELD = timedelta(minutes=15)
"""How old the first record behind the last stable offset is when its transaction counts as hanging: brokers let none stay open longer, by default
(`transaction.max.timeout.ms`)."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Finds times in partitions, by what a broker says at one moment."""

    broker: Broker
    now: datetime
    """The clock. A record with a later timestamp is ahead of it."""

    def run_ends(self, ends: Mapping[Place, int], when: datetime, *, heads: Mapping[Place, int]) -> dict[Place, int]:
        """Return, by partition, where a run for new records ends: at the first record at or after `when`, or at the last stable offset, `ends`.

        A record that is ahead of the clock is no boundary. The run then takes everything up to the last stable offset. This needs no search through
        records and loses nothing, because the next run begins where this one ends.
        """
        found_ends = {}
        for place, found in self.broker.offsets_at(dict.fromkeys(ends, when)).items():
            end = ends[place]
            found_ends[place] = end if self._is_ahead(found) else min(found.offset, end)
            # A record before the head stays in the log, but the run that loaded it has logged the warning already.
            if self._is_ahead(found) and heads[place] <= found.offset < end:
                self._warn(place, found, f"it is loaded, and the run ends at the last stable offset, {end}")
        return found_ends

    def edges(
        self, ends: Mapping[Place, int], when: datetime, *, floors: Mapping[Place, int] | None = None
    ) -> dict[Place, int]:
        """Return, by partition, where `when` begins: at the first record at or after it that is not ahead of the clock, or the last stable offset.

        `ends` has the last stable offsets. `floors` says, by partition, before which offset the result need not be exact.
        """
        found_at = self.broker.offsets_at(dict.fromkeys(ends, when))
        begins = {place: min(found.offset, ends[place]) for place, found in found_at.items()}
        odd = {
            place: (max(found.offset, (floors or {}).get(place, 0)), ends[place])
            for place, found in found_at.items()
            if self._is_ahead(found) and found.offset < ends[place]
        }
        begins |= first_late(partial(self._are_late, when), odd)
        for place in odd:
            self._warn(
                place, found_at[place], f"searched after it: {when.isoformat()} begins at offset {begins[place]}"
            )
        return begins

    def older(
        self, offsets: Mapping[Place, int], times: Mapping[Place, datetime], *, committed: bool = True
    ) -> set[Place]:
        """Return the partitions whose next record, at or after the given offset, is older than the given time.

        With `committed=False`, records of open transactions and those behind them count as well.
        """
        if not offsets:
            return set()
        found = self.broker.offsets_at({place: times[place] for place in offsets}, committed=committed)
        before = {place for place, offset in offsets.items() if found[place].offset > offset}
        unknown = {place: offsets[place] for place in offsets.keys() - before if self._is_ahead(found[place])}
        if not unknown:
            return before
        looked_at = self.broker.records_from(unknown, _RECORDS_PER_PLACE, committed=committed)
        return before | {
            place for place, records in looked_at.items() if is_late(records, times[place], self.now) is False
        }

    def older_unread(
        self, offsets: Mapping[Place, int], times: Mapping[Place, datetime], held: Collection[Place]
    ) -> set[Place]:
        """Return what `older` does. In the partitions in `held`, what a hanging transaction holds back is unread as well."""
        behind = {place: offset for place, offset in offsets.items() if place in held}
        free = {place: offset for place, offset in offsets.items() if place not in held}
        return self.older(free, times) | self.older(behind, times, committed=False)

    def held(self, topics: Iterable[TopicFacts]) -> frozenset[Place]:
        """Return the partitions in which a transaction hangs: nothing behind its first record can be read, and retention deletes it all the same."""
        unstable = {
            (topic.topic, facts.partition): facts.end
            for topic in topics
            for facts in topic.partitions
            if facts.n_unstable
        }
        return frozenset(self.older(unstable, dict.fromkeys(unstable, self.now - HELD), committed=False))

    def _are_late(self, when: datetime, asked: Mapping[Place, int]) -> dict[Place, bool]:
        looked_at = self.broker.records_from(asked, _RECORDS_PER_PLACE)
        return {place: is_late(records, when, self.now) is True for place, records in looked_at.items()}

    def _is_ahead(self, found: FoundOffset) -> bool:
        return found.timestamp is not None and is_ahead(found.timestamp, self.now)

    @staticmethod
    def _warn(place: Place, found: FoundOffset, consequence: str) -> None:
        log.warning(
            "%s/%s: the record at offset %s carries %s, which is in the future: %s",
            *place,
            found.offset,
            written(found.timestamp or 0),
            consequence,
        )
