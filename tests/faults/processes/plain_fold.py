"""Compare the states of a pipeline with a plain loop over the records that it has loaded, which knows no batches.

The loop is written by itself: it uses nothing of the engine. The law: states, timers, positions and the rows of timers are
the fold over exactly the loaded records, whatever struck the processes; and undo, applied in memory from the newest batch
back, gives the fold over what was loaded before.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from faults import records
from faults.checker.facts import Coverage, Found, Row, Stream, Violation
from faults.records import Fate

_SILENCE = timedelta(minutes=4)
EXPIRED_ITEM = -1
"""The item of a row that a timer has made."""
Query = Callable[..., list[tuple[Any, ...]]]


class Kept(NamedTuple):
    """The state of a key."""

    stream_id: int
    value: Mapping[str, int]
    expires_at: datetime
    offset: int


class Expired(NamedTuple):
    """A row that a timer has made."""

    stream_id: int
    offset: int
    first: int
    n_records: Decimal


@dataclass(slots=True)
class PlainFold:
    """What the records of some ranges of offsets give."""

    states: dict[str, Kept] = field(default_factory=dict)
    expired: list[Expired] = field(default_factory=list)
    latest: dict[int, datetime] = field(default_factory=dict)
    """The largest event time by stream."""

    def take(self, stream: Stream, pieces: Iterable[tuple[int, int]], rejected: Iterable[int]) -> None:
        """Fold the records of one stream, given by ranges in ascending order, and let the timers come that they reach."""
        refused = set(rejected)
        incarnation = records.incarnation_of(stream.topic_id)
        for offset in (offset for piece in pieces for offset in range(*piece)):
            kind = records.fate(incarnation, stream.partition, offset)
            if kind in {Fate.MARKER, Fate.BROKEN, Fate.TOO_EXPENSIVE} or (kind is Fate.REFUSED and offset in refused):
                continue
            at = datetime.fromtimestamp(records.timestamp_ms(incarnation, stream.partition, offset) / 1000, UTC)
            self._fold(stream, (incarnation * 100 + stream.partition) * 1_000_000 + offset, offset, at)
        until = self.latest.get(stream.stream_id)
        for key, kept in list(self.states.items()):
            if until is not None and kept.stream_id == stream.stream_id and kept.expires_at <= until:
                self._expire(key)

    def _fold(self, stream: Stream, number: int, offset: int, at: datetime) -> None:
        key = f"[{number // 1_000_000 * 10 + number % 3}]"
        if key in self.states and self.states[key].expires_at <= at:
            self._expire(key)
        value = self.states[key].value if key in self.states else {"first": number, "records": 0}
        value = {**value, "records": value["records"] + 1}
        self.states[key] = Kept(stream.stream_id, value, at + _SILENCE, offset)
        self.latest[stream.stream_id] = at

    def _expire(self, key: str) -> None:
        kept = self.states.pop(key)
        self.expired.append(Expired(kept.stream_id, kept.offset, kept.value["first"], Decimal(kept.value["records"])))


def without_expired(rows: Callable[[Stream], Iterator[Row]]) -> Callable[[Stream], Iterator[Row]]:
    """Return the rows that records have made. Those of timers are no row of the record whose coordinates they have."""
    return lambda stream: (row for row in rows(stream) if row.values[1] != EXPIRED_ITEM)


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


def wrong_states(found: Found, stored: Mapping[str, list[Any]]) -> Iterator[Violation]:
    """Yield differences between the ledger's states, now and as far back as undo is kept, and the plain fold."""
    states = {row[0]: row[1:] for row in stored["states"]}
    positions = {row[0]: row[1:] for row in stored["positions"]}
    yield from _compare("now", found, states, positions, until=None)
    for batch_id in reversed([batch_id for batch_id, undo in stored["folded"] if undo == "kept"]):
        for row in (row for row in stored["position undo"] if row[0] == batch_id):
            positions[row[1]] = row[2:]
        for _, key, existed, *before in (row for row in stored["undo"] if row[0] == batch_id):
            states.pop(key, None)
            if existed:
                states[key] = tuple(before)
        ends = {stream_id: position[0] for stream_id, position in positions.items()}
        yield from _compare(f"before batch {batch_id}", found, states, positions, until=ends)
    kept = {batch_id for batch_id, undo in stored["folded"] if undo == "kept"}
    for row in (*stored["undo"], *stored["position undo"]):
        if row[0] not in kept:
            yield Violation("undo", f"batch {row[0]}", f"has undo that is not kept: {row}")


def _compare(
    when: str,
    found: Found,
    states: Mapping[str, Sequence[Any]],
    positions: Mapping[int, Sequence[Any]],
    *,
    until: Mapping[int, int] | None,
) -> Iterator[Violation]:
    fold = PlainFold()
    for stream in found.streams:
        loaded = _loaded(found.coverage, stream, None if until is None else until.get(stream.stream_id, 0))
        fold.take(stream, loaded, [reject.offset for reject in found.rejects(stream)])
        end = max((end for _, end in loaded), default=None)
        given = positions.get(stream.stream_id)
        if until is None and end != (given and given[0]):
            yield Violation("position", f"{stream} {when}", f"the state stands at {given}, loaded is up to {end}")
        if given is not None and given[1] != fold.latest.get(stream.stream_id):
            text = f"largest event time {given[1]}, expected {fold.latest.get(stream.stream_id)}"
            yield Violation("watermark", f"{stream} {when}", text)
    there = {key: Kept(row[0], row[1], row[2], row[3]) for key, row in states.items()}
    for key in sorted(there.keys() | fold.states.keys()):
        if there.get(key) != fold.states.get(key):
            text = f"expected {fold.states.get(key)}, found {there.get(key)}"
            yield Violation("state", f"key {key} {when}", text)
    if until is None:
        shown = sorted(
            Expired(stream.stream_id, row.offset, row.values[0], row.values[3])
            for stream in found.streams
            for row in found.rows(stream)
            if row.values[1] == EXPIRED_ITEM
        )
        if shown != sorted(fold.expired):
            yield Violation("timers", when, f"expected the rows {sorted(fold.expired)}, found {shown}")


def _loaded(coverage: Iterable[Coverage], stream: Stream, until: int | None) -> list[tuple[int, int]]:
    """Return the offsets of a stream that batches have loaded, up to `until`."""
    mine = sorted((one.start, one.end) for one in coverage if one.stream_id == stream.stream_id and one.batch_id)
    return [(start, end) for start, end in mine if until is None or start < until]
