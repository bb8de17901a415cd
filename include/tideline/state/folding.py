"""Fold records into the states of their keys, chunk by chunk. Only states are held between chunks, so a key may have any number of records."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf
from typing import Any, NamedTuple

from tideline.domain.reject_reasons import of_error, one_line
from tideline.state.key_state import Kept, KeyState, Row, Stored, Typed
from tideline.state.rules import Rules


class KeyedRecord(NamedTuple):
    """One record of a key."""

    key: str
    """As `keys.key_text` gives it."""
    stream_id: int
    offset: int
    values: dict[str, Any]
    """The columns by name, and `kafka`."""


class Planned(NamedTuple):
    """Offsets [start, end), and when they were planned for the first time. After a rewind they are planned again, and that changes nothing here."""

    start: int
    end: int
    at: datetime


class FoldedStream(NamedTuple):
    """A stream as it is when its batch begins."""

    name: str
    """Topic and partition, as in `orders/3`."""
    watermark: datetime | None
    """None as long as no record of the stream was folded."""
    planned: Sequence[Planned] = ()
    """In order, without gaps; nothing where records are folded without a plan."""

    def planned_at(self, offset: int) -> datetime | None:
        """Return when an offset was planned for the first time; None if the stream has no plans."""
        given = self.planned
        if len(given) > 1:  # of most batches, everything was planned at one time
            return given[bisect_right(given, (offset, inf)) - 1].at
        return given[0].at if given else None


class Rejected(NamedTuple):
    """One record that is not folded."""

    number: int
    """Its position among the records of the chunk, from 0."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What became of a chunk."""

    rows: list[Row] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    """The states of keys that are finished."""
    rejected: list[Rejected] = field(default_factory=list)


class Fold:
    """Folds the records of one batch, or of those of its keys that one task has, a few keys side by side.

    Args:
        rules: How records are folded.
        streams: The streams of the batch, by id.

    Raises:
        FatalError: The processor does not open.
    """

    def __init__(self, rules: Rules, streams: Mapping[int, FoldedStream]) -> None:
        rules.open()
        self.latest: dict[int, datetime] = {}
        """The largest event time of the folded records, by stream."""
        self._rules = rules
        self._streams = streams
        self._typed = Typed(rules)
        self._open: dict[str, KeyState] = {}

    def not_open(self, records: Iterable[KeyedRecord]) -> list[str]:
        """Return the keys of records whose states are not here yet."""
        return [key for key in dict.fromkeys(record.key for record in records) if key not in self._open]

    def fold(self, records: Iterable[KeyedRecord], stored: Mapping[str, Stored]) -> Folded:
        """Fold records. Their keys stay open: later chunks may go on with them.

        Args:
            records: The next records. Those of one key are in the order of stream and offset, also from one chunk to the next.
            stored: The stored states of the keys that are not open; none for a key without one.

        Raises:
            FatalError: `on_expiry` has failed. Nothing of the batch can be published.
        """
        folded = Folded()
        for number, record in enumerate(records):
            state = self._open.get(record.key)
            if state is None:
                state = KeyState(self._rules, self._typed, record.key, stored.get(record.key))
                self._open[record.key] = state
            if reason := self._take(state, record, folded.rows):
                folded.rejected.append(Rejected(number, reason))
        return folded

    def finish(self) -> Folded:
        """Return the states of the open keys, which have no more records, and forget them."""
        finished = [kept for state in self._open.values() if (kept := state.kept())]
        self._open.clear()
        return Folded(kept=finished)

    def _take(self, key: KeyState, record: KeyedRecord, rows: list[Row]) -> str | None:
        """Fold a record. Return why it is rejected instead; None if it is folded."""
        at = self._event_time(record)
        stream = self._streams[record.stream_id]
        if at is None:
            return f"no event time: {self._rules.event_time or 'the timestamp of the Kafka record'} is null"
        if reason := self._is_ahead(stream, record, at):
            return reason
        if key.is_kept and key.stream != stream.name:
            return one_line(f"key {key.key} belongs to {key.stream}, and a key has one partition")
        if self._rules.rejects_late and stream.watermark is not None and at < stream.watermark:
            return f"late: event time {_shown(at)} is before the watermark {_shown(stream.watermark)} of {stream.name}"
        expired: list[Row] = []
        before = None
        if key.is_due(at):
            before = key.snapshot()
            expired += key.expire(at)
        try:
            made = key.on_record(record.values, record.stream_id, stream.name, record.offset)
        except Exception as error:  # noqa: BLE001 - a processor may raise anything
            # A reject is not folded, so a timer that only its event time has reached has not come.
            if before is not None:
                key.restore(before)
            return of_error(error)
        rows += expired
        rows += made
        latest = self.latest.get(record.stream_id)
        self.latest[record.stream_id] = at if latest is None else max(at, latest)
        return None

    def _is_ahead(self, stream: FoldedStream, record: KeyedRecord, at: datetime) -> str | None:
        """Return why a record is rejected that is ahead of its time: it would make every later record of its partition late; None if it is not.

        The times that it is compared with are the same at each try, and after a rewind, whenever that is.
        """
        ahead = self._rules.ahead
        if ahead is None:
            return None
        written = record.values["kafka"].get("timestamp")
        planned = stream.planned_at(record.offset)
        if written is not None and at - written > ahead:
            other, what = written, "its timestamp in Kafka"
        elif planned is not None and at - planned > ahead:
            other, what = planned, "when it was first planned"
        else:
            return None
        limit = f"{ahead // timedelta(minutes=1):,} minutes"
        return f"ahead of its time: event time {_shown(at)} is more than {limit} after {_shown(other)}, {what}"

    def _event_time(self, record: KeyedRecord) -> datetime | None:
        of = self._rules.event_time
        found: datetime | None = record.values["kafka"]["timestamp"] if of is None else record.values[of]
        return found


def expired(rules: Rules, due: Iterable[tuple[str, Stored]], watermarks: Mapping[str, datetime]) -> Iterator[Folded]:
    """Let the timers of keys come that the watermarks of their streams have reached. Yield what became of each key.

    Args:
        rules: How records are folded.
        due: Keys with a timer that is not after the watermark of their stream, and their states.
        watermarks: After the batch, by topic and partition, as in `orders/3`.

    Raises:
        FatalError: The processor does not open, or `on_expiry` has failed. Nothing of the batch can be published.
    """
    rules.open()
    typed = Typed(rules)
    for key, stored in due:
        state = KeyState(rules, typed, key, stored)
        rows = list(state.expire(watermarks[stored.stream]))
        kept = state.kept()
        yield Folded(rows=rows, kept=[kept] if kept else [])


def watermark(latest: datetime | None, lateness: timedelta) -> datetime | None:
    """Return the watermark of a stream: its largest event time so far, minus the lateness."""
    if latest is None:
        return None
    try:
        return latest - lateness
    except OverflowError:  # before the year 1
        return None


def _shown(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
