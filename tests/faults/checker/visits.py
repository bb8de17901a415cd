"""Folds the loaded records of a stateful pipeline once more, by a plain loop without interruption, and compares everything with the result.

The records are those of `faults.records`, the processor is that of `faults.visits`. Nothing of either is used here but the rules.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from faults.checker.facts import Folded, KeyState, Position, Record, Stream
from faults.checker.index import Index
from faults.visit_rules import LONG_PAUSE, PAUSE, REFUSED, SEVERAL, TOO_EXPENSIVE, user_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a pipeline folds."""

    lateness: timedelta = timedelta(0)
    rejects_late: bool = True
    ahead: timedelta = timedelta(hours=1)
    resets: bool = False
    """Whether keys of a stream begin anew where offsets were left out."""
    refusing: frozenset[str] = frozenset()
    """The versions of the processor that refuse some names."""


@dataclass(slots=True)
class Visit:
    """The state of a user."""

    stream: Stream
    offset: int
    first: int
    batch_id: int
    timer: datetime = EPOCH
    last: datetime = EPOCH
    n_records: int = 0
    paid: int = 0
    shown: int = 0

    def state(self, user: str) -> KeyState:
        """Return it as the ledger has it."""
        last = self.last.isoformat().replace("+00:00", "Z")
        value = {"first": self.first, "records": self.n_records, "paid": self.paid, "shown": self.shown, "last": last}
        return KeyState(
            json.dumps([user], separators=(",", ":")),
            self.stream.stream_id,
            value,
            self.timer,
            self.offset,
            self.batch_id,
        )


class Made(NamedTuple):
    """A row."""

    stream_id: int
    offset: int
    batch_id: int
    values: tuple[Any, ...]


@dataclass(slots=True)
class Counts:
    """What became of the records of a range."""

    n_read: int = 0
    n_written: int = 0
    n_rejected: int = 0


@dataclass(slots=True)
class Outcome:
    """What an uninterrupted fold gives."""

    rows: list[Made] = field(default_factory=list)
    rejects: dict[tuple[int, int], tuple[int, Record]] = field(default_factory=dict)
    """By stream and offset: the batch, and the record."""
    counts: dict[tuple[int, int], Counts] = field(default_factory=dict)
    """By batch and stream."""
    n_expired: dict[int, int] = field(default_factory=dict)
    """By batch, the rows of timers."""
    after: dict[int, tuple[dict[str, KeyState], dict[int, Position]]] = field(default_factory=dict)
    """By batch, states and positions when it was folded. 0 is the beginning."""


class Folder:
    """Folds batch after batch."""

    def __init__(self, rules: Rules, planned: Callable[[Stream, int], datetime]) -> None:
        self.rules = rules
        self.planned = planned
        """Returns when an offset was planned for the first time."""
        self.found = Outcome(after={0: ({}, {})})
        self.visits: dict[str, Visit] = {}
        self.positions: dict[int, Position] = {}
        self.places: dict[tuple[str, int], None] = {}
        """Topics and partitions of which something was folded."""

    def fold(
        self, one: Folded, ranges: Mapping[Stream, tuple[int, int]], records: Mapping[Stream, list[Record]]
    ) -> None:
        """Fold one batch."""
        before = {stream: self._watermark(stream) for stream in ranges}
        for stream, (start, _) in ranges.items():
            at, place = self.positions.get(stream.stream_id), (stream.topic, stream.partition)
            has_gap = place in self.places if at is None else at.next_offset < start
            if has_gap and self.rules.resets:
                self.visits = {
                    user: v for user, v in self.visits.items() if (v.stream.topic, v.stream.partition) != place
                }
        for stream in sorted(ranges, key=lambda stream: stream.stream_id):
            counts = self.found.counts.setdefault((one.batch_id, stream.stream_id), Counts())
            for record in records[stream]:
                counts.n_read += 1
                if not self._take(one, stream, record, before[stream]):
                    counts.n_rejected += 1
                    self.found.rejects[stream.stream_id, record.offset] = (one.batch_id, record)
        for stream, (_, end) in ranges.items():
            at = self.positions.get(stream.stream_id)
            self.positions[stream.stream_id] = Position(stream.stream_id, end, at and at.max_time, one.batch_id)
            self.places[stream.topic, stream.partition] = None
        for user, visit in list(self.visits.items()):
            for stream in ranges:
                until = self._watermark(stream)
                if until is not None and (visit.stream.topic, visit.stream.partition) == (
                    stream.topic,
                    stream.partition,
                ):
                    self._show(one, user, visit, until)
        states = {state.key: state for user, visit in self.visits.items() for state in [visit.state(user)]}
        self.found.after[one.batch_id] = (states, dict(self.positions))

    def _watermark(self, stream: Stream) -> datetime | None:
        at = self.positions.get(stream.stream_id)
        return None if at is None or at.max_time is None else at.max_time - self.rules.lateness

    def _take(self, one: Folded, stream: Stream, record: Record, watermark: datetime | None) -> bool:
        """Fold one record. Return whether it is not a reject."""
        try:
            given = json.loads(record.value or b"")
        except ValueError:
            return False
        assert record.timestamp_ms is not None, record
        at = EPOCH + timedelta(milliseconds=record.timestamp_ms)
        user = user_of(given["id"])
        visit = self.visits.get(user)
        if visit is not None and (visit.stream.topic, visit.stream.partition) != (stream.topic, stream.partition):
            return False
        if at > self.planned(stream, record.offset) + self.rules.ahead:
            return False
        if self.rules.rejects_late and watermark is not None and at < watermark:
            return False
        if given["price"] >= TOO_EXPENSIVE or (given["name"] == REFUSED and one.processor in self.rules.refusing):
            return False
        if visit is not None:
            self._show(one, user, visit, at)
        self._count(one, stream, record.offset, given, at)
        old = self.positions.get(stream.stream_id, Position(stream.stream_id, 0, None, None))
        latest = at if old.max_time is None else max(at, old.max_time)
        self.positions[stream.stream_id] = old._replace(max_time=latest)
        return True

    def _count(self, one: Folded, stream: Stream, offset: int, given: Any, at: datetime) -> None:
        user = user_of(given["id"])
        if not given["copies"]:
            self.visits.pop(user, None)
            return
        visit = self.visits.setdefault(user, Visit(stream, offset, given["id"], one.batch_id))
        visit.stream, visit.offset, visit.batch_id = stream, offset, one.batch_id
        visit.n_records += 1
        visit.paid += int(given["price"] * 2)
        visit.last, visit.timer = at, at + PAUSE
        if given["copies"] > 1:
            self.found.counts[one.batch_id, stream.stream_id].n_written += 1
            self._row(one, visit, (given["id"], 0, given["name"], Decimal(visit.paid)))

    def _show(self, one: Folded, user: str, visit: Visit, until: datetime) -> None:
        """Let the timers of a visit come."""
        while user in self.visits and visit.timer <= until:
            visit.shown += 1
            visit.batch_id = one.batch_id
            self._row(one, visit, (visit.first, visit.shown, f"{user} {visit.n_records}", Decimal(visit.paid)))
            self.found.n_expired[one.batch_id] = self.found.n_expired.get(one.batch_id, 0) + 1
            if visit.n_records >= SEVERAL and visit.shown == 1:
                visit.timer = visit.last + LONG_PAUSE
            else:
                del self.visits[user]

    def _row(self, one: Folded, visit: Visit, values: tuple[Any, ...]) -> None:
        self.found.rows.append(Made(visit.stream.stream_id, visit.offset, one.batch_id, values))


def outcome(index: Index, rules: Rules, batches: Iterator[Folded], read: Any) -> Outcome:
    """Return what an uninterrupted fold of batches gives. `read` returns the records of a stream between two offsets."""
    planned_at = {batch.batch_id: batch.planned_at for batch in index.found.batches}

    def planned(stream: Stream, offset: int) -> datetime:
        """Return the time of the first batch over an offset, also if it was given up or rewound since. Event times are those of Kafka here."""
        own = (one for one in index.found.ranges if one.stream_id == stream.stream_id)
        return min(planned_at[one.batch_id] for one in own if one.start <= offset < one.end)

    folder = Folder(rules, planned)
    for one in batches:
        pieces = [piece for piece in index.found.ranges if piece.batch_id == one.batch_id]
        ranges = {index.streams[piece.stream_id]: (piece.start, piece.end) for piece in pieces}
        folder.fold(one, ranges, {stream: list(read(stream, *bounds)) for stream, bounds in ranges.items()})
    return folder.found
