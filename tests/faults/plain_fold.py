"""Compare the states of a pipeline with a plain loop over the records that it has loaded, which knows no batches.

The loop is written by itself: it uses nothing of the engine. The law: states, timers, positions and the rows of timers are
the fold over exactly the loaded records, whatever struck the processes; and undo, applied in memory from the newest batch
back, gives the fold over what was loaded before.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from faults.checker.facts import Coverage, Found, Stream, Violation

EXPIRED_ITEM = -1
"""The item of a row that a timer has made."""
Query = Callable[..., list[tuple[Any, ...]]]


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


def kept_states(query: Query, pipeline: str) -> dict[str, list[Any]]:
    """Return states, positions and undo as they are stored."""
    return {
        "states": query(
            "SELECT key, stream_id, value, expires_at, kafka_offset, batch_id FROM tideline.state WHERE pipeline = %s ORDER BY 1",
            pipeline,
        ),
        "positions": query(
            "SELECT stream_id, next_offset, max_time, batch_id FROM tideline.state_position WHERE pipeline = %s ORDER BY 1",
            pipeline,
        ),
        "folded": query("SELECT batch_id, undo FROM tideline.state_batch WHERE pipeline = %s ORDER BY seq", pipeline),
        "undo": query(
            "SELECT batch_id, key, existed, stream_id, value, expires_at, kafka_offset, of_batch FROM tideline.state_undo"
            " JOIN tideline.state_batch b USING (batch_id) WHERE b.pipeline = %s ORDER BY 1, 2",
            pipeline,
        ),
        "position undo": query(
            "SELECT batch_id, stream_id, next_offset, max_time, of_batch FROM tideline.state_position_undo"
            " JOIN tideline.state_batch b USING (batch_id) WHERE b.pipeline = %s ORDER BY 1, 2",
            pipeline,
        ),
    }


def wrong_states(found: Found, stored: Mapping[str, list[Any]], runs: Runs) -> Iterator[Violation]:
    """Yield differences between the ledger's states, now and as far back as undo is kept, and the plain fold."""
    states = {row[0]: row[1:] for row in stored["states"]}
    positions = {row[0]: row[1:] for row in stored["positions"]}
    yield from _wrong_now(found, runs, positions)
    yield from _compared("now", found, runs, states, positions)
    kept = [batch_id for batch_id, undo in stored["folded"] if undo == "kept"]
    for batch_id in reversed(kept):
        for row in (row for row in stored["position undo"] if row[0] == batch_id):
            positions[row[1]] = row[2:]
        for _, key, existed, *before in (row for row in stored["undo"] if row[0] == batch_id):
            states.pop(key, None)
            if existed:
                states[key] = tuple(before)
        yield from _compared(f"before batch {batch_id}", found, runs, states, positions)
    for row in (*stored["undo"], *stored["position undo"]):
        if row[0] not in kept:
            yield Violation("undo", f"batch {row[0]}", f"has undo that is not kept: {row}")


def _wrong_now(found: Found, runs: Runs, positions: Mapping[int, Sequence[Any]]) -> Iterator[Violation]:
    """Compare positions with what is loaded, and the rows of timers with the fold over all of it."""
    fold = PlainFold(runs.silence)
    for stream in found.streams:
        loaded = _loaded(found.coverage, stream)
        fold.take(stream.stream_id, runs.events(found, stream, loaded))
        given = positions[stream.stream_id][0] if stream.stream_id in positions else None
        if given != max((end for _, end in loaded), default=None):
            yield Violation("position", str(stream), f"the state stands at {given}, loaded is {loaded}")
    if (shown := runs.expired(found)) != (expected := sorted(fold.expired)):
        wrong = sorted(set(shown) ^ set(expected))
        yield Violation("timers", "the output", f"{len(shown)} rows, expected {len(expected)}; different are {wrong}")


def _compared(
    when: str, found: Found, runs: Runs, states: Mapping[str, Sequence[Any]], positions: Mapping[int, Sequence[Any]]
) -> Iterator[Violation]:
    """Compare states and watermarks with the fold over what was loaded up to the positions."""
    fold = PlainFold(runs.silence)
    for stream in found.streams:
        end, latest, *_ = positions.get(stream.stream_id, (0, None))
        pieces = [piece for piece in _loaded(found.coverage, stream) if piece[0] < end]
        fold.take(stream.stream_id, runs.events(found, stream, pieces))
        if latest != (expected := fold.latest.get(stream.stream_id)):
            text = f"the largest event time is {latest}, expected {expected}"
            yield Violation("watermark", f"{stream} {when}", text)
    there = {key: Kept(*row[:4]) for key, row in states.items()}
    for key in sorted(there.keys() | fold.states.keys()):
        if there.get(key) != fold.states.get(key):
            text = f"expected {fold.states.get(key)}, found {there.get(key)}"
            yield Violation("state", f"key {key} {when}", text)


def _loaded(coverage: Iterable[Coverage], stream: Stream) -> list[tuple[int, int]]:
    """Return the offsets of a stream that batches have loaded."""
    return sorted((one.start, one.end) for one in coverage if one.stream_id == stream.stream_id and one.batch_id)
