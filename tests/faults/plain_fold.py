"""Compare the states of a pipeline with a plain loop over the records that it has loaded, which knows no batches.

The loop is written by itself: it uses nothing of the engine. The law: states, timers, positions and the rows of timers are
the fold over exactly the loaded records, whatever struck the processes; and undo, applied in memory from the newest batch
back, gives the fold over what was loaded before.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from faults.checker.facts import Coverage, Found, KeyState, Position, Stream, Violation
from faults.checker.states import KEPT, NEVER, go_back

EXPIRED_ITEM = -1
"""The item of a row that a timer has made."""


class Event(NamedTuple):
    """A record that a processor folds."""

    key: str
    """As JSON."""
    number: int
    offset: int
    at: datetime


class Kept(NamedTuple):
    """The state of a key."""

    stream_id: int
    value: Mapping[str, int]
    """The number of its first record, and how many there were."""
    expires_at: datetime
    offset: int


class Expired(NamedTuple):
    """A row that a timer has made."""

    stream_id: int
    offset: int
    first: int
    n_records: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """A processor that counts the records of each key until it is silent, and what it folds.

    The records of each stream are in the order of event time, so how they are cut into batches makes no difference.
    """

    silence: timedelta
    """A timer comes so long after the last record of a key."""
    events: Callable[[Found, Stream, Iterable[tuple[int, int]]], Iterable[Event]]
    """Return what is folded of the given ranges of offsets, in order."""
    item: int
    """The place of the item among the values of a row; the number is at 0."""
    price: int
    """The place of the price, which is the number of records in a row of a timer."""

    def without_expired(self, found: Found) -> Found:
        """Leave out the rows of timers: none is a row of the record whose coordinates it has."""
        rows = found.rows
        return replace(
            found, rows=lambda stream: (row for row in rows(stream) if row.values[self.item] != EXPIRED_ITEM)
        )

    def expired(self, found: Found) -> list[Expired]:
        """Return the rows of timers."""
        return sorted(
            Expired(stream.stream_id, row.offset, row.values[0], row.values[self.price])
            for stream in found.streams
            for row in found.rows(stream)
            if row.values[self.item] == EXPIRED_ITEM
        )


@dataclass(slots=True)
class PlainFold:
    """What the records of some ranges of offsets give."""

    silence: timedelta
    states: dict[str, Kept] = field(default_factory=dict)
    expired: list[Expired] = field(default_factory=list)
    latest: dict[int, datetime] = field(default_factory=dict)
    """The largest event time by stream."""

    def take(self, stream_id: int, events: Iterable[Event]) -> None:
        """Fold the records of one stream, and let the timers come that they reach."""
        for event in events:
            self._fold(stream_id, event)
        until = self.latest.get(stream_id)
        for key, kept in list(self.states.items()):
            if until is not None and kept.stream_id == stream_id and kept.expires_at <= until:
                self._expire(key)

    def _fold(self, stream_id: int, event: Event) -> None:
        key = event.key
        if key in self.states and self.states[key].expires_at <= event.at:
            self._expire(key)
        value = self.states[key].value if key in self.states else {"first": event.number, "records": 0}
        value = {**value, "records": value["records"] + 1}
        self.states[key] = Kept(stream_id, value, event.at + self.silence, event.offset)
        self.latest[stream_id] = event.at

    def _expire(self, key: str) -> None:
        kept = self.states.pop(key)
        n_records = Decimal(kept.value["records"])
        self.expired.append(Expired(kept.stream_id, kept.offset, kept.value["first"], n_records))


def wrong_states(found: Found, runs: Runs) -> Iterator[Violation]:
    """Yield differences between the ledger's states, now and as far back as undo is kept, and the plain fold."""
    states, positions = dict(found.states), dict(found.positions)
    yield from _wrong_now(found, runs)
    yield from _compared("now", found, runs, states, positions)
    for one in reversed([one for one in found.folded if one.undo == KEPT]):
        go_back(found.undo.get(one.batch_id, NEVER), states, positions)
        yield from _compared(f"before batch {one.batch_id}", found, runs, states, positions)


def _wrong_now(found: Found, runs: Runs) -> Iterator[Violation]:
    """Compare positions with what is loaded, and the rows of timers with the fold over all of it."""
    fold = PlainFold(runs.silence)
    for stream in found.streams:
        loaded = _loaded(found.coverage, stream)
        fold.take(stream.stream_id, runs.events(found, stream, loaded))
        position = found.positions.get(stream.stream_id)
        given = position and position.next_offset
        if given != max((end for _, end in loaded), default=None):
            yield Violation("position", str(stream), f"the state stands at {given}, loaded is {loaded}")
    if (shown := runs.expired(found)) != (expected := sorted(fold.expired)):
        wrong = sorted(set(shown) ^ set(expected))
        yield Violation("timers", "the output", f"{len(shown)} rows, expected {len(expected)}; different are {wrong}")


def _compared(
    when: str, found: Found, runs: Runs, states: Mapping[str, KeyState], positions: Mapping[int, Position]
) -> Iterator[Violation]:
    """Compare states and watermarks with the fold over what was loaded up to the positions."""
    fold = PlainFold(runs.silence)
    for stream in found.streams:
        at = positions.get(stream.stream_id, Position(stream.stream_id, 0, None, None))
        pieces = [piece for piece in _loaded(found.coverage, stream) if piece[0] < at.next_offset]
        fold.take(stream.stream_id, runs.events(found, stream, pieces))
        if at.max_time != (expected := fold.latest.get(stream.stream_id)):
            text = f"the largest event time is {at.max_time}, expected {expected}"
            yield Violation("watermark", f"{stream} {when}", text)
    there = {key: (one.stream_id, one.value, one.expires_at, one.offset) for key, one in states.items()}
    for key in sorted(there.keys() | fold.states.keys()):
        if there.get(key) != fold.states.get(key):
            text = f"expected {fold.states.get(key)}, found {there.get(key)}"
            yield Violation("state", f"key {key} {when}", text)


def _loaded(coverage: Iterable[Coverage], stream: Stream) -> list[tuple[int, int]]:
    """Return the offsets of a stream that batches have loaded."""
    return sorted((one.start, one.end) for one in coverage if one.stream_id == stream.stream_id and one.batch_id)
