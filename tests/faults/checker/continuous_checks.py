"""Checks a ledger and its output many times a second while faults are injected: for states that must not be visible at any moment."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg2
from psycopg2.extensions import connection
from psycopg2.sql import SQL

from faults.checker.all_laws import violations_of_the_ledger
from faults.checker.facts import Found, Range, Violation
from faults.checker.index import OPEN, PUBLISHED
from faults.checker.snapshots import Reading, snapshot

UNPUBLISHED_ROWS = """
SELECT batch_id, b.state::text, s.topic, s.partition, early.kafka_offset
FROM tideline.batch b JOIN tideline.batch_range r USING (batch_id) JOIN tideline.stream s USING (stream_id)
CROSS JOIN LATERAL (
    SELECT t.kafka_offset FROM {table} t
    WHERE t.kafka_topic_id = s.topic_id AND t.kafka_partition = s.partition AND t.tideline_batch = b.batch_id
      AND t.kafka_offset >= lower(r.offsets) AND t.kafka_offset < upper(r.offsets) LIMIT 1) early
WHERE b.pipeline = %(pipeline)s AND b.state IN ('planned', 'writing', 'failed', 'abandoned')"""
UNPUBLISHED_REJECTS = """
SELECT batch_id, b.state::text, s.topic, s.partition, early.kafka_offset
FROM tideline.batch b
CROSS JOIN LATERAL (SELECT stream_id, kafka_offset FROM tideline.reject j WHERE j.batch_id = b.batch_id LIMIT 1) early
JOIN tideline.stream s USING (stream_id)
WHERE b.pipeline = %(pipeline)s AND b.state IN ('planned', 'writing', 'failed', 'abandoned')"""
WRITTEN = """
SELECT count(DISTINCT kafka_offset) FROM {table}
WHERE kafka_topic_id = %(topic_id)s AND kafka_partition = %(partition)s AND kafka_offset >= %(start)s AND kafka_offset < %(end)s"""
REJECTED = """
SELECT count(*) FROM tideline.reject WHERE stream_id = %(stream_id)s AND kafka_offset >= %(start)s AND kafka_offset < %(end)s"""


class Watch:
    """Compares each snapshot with the one before. If the server does not answer, the next look tries again.

    Args:
        url: The database.
        pipeline: The pipeline whose ledger is read.
        table: Its output table, `schema.table`; it need not exist yet. None for an outside sink, whose rows this cannot see.
        pruned: Upkeep may delete old events.
    """

    def __init__(self, url: str, pipeline: str, table: str | None, *, pruned: bool = False) -> None:
        self._url, self._pipeline, self._table, self._pruned = url, pipeline, table, pruned
        self._connection: connection | None = None
        self._before: Found | None = None
        self._seen: dict[Violation, None] = {}
        self.looks = 0

    @property
    def violations(self) -> list[Violation]:
        """All violations that were ever seen, once each."""
        return list(self._seen)

    def look(self) -> bool:
        """Check one snapshot; return whether the server answered."""
        try:
            if self._connection is None:
                self._connection = snapshot(self._url, "watch")
            reading = Reading(self._connection, self._pipeline, self._table)
            found = reading.found()
            seen = [
                *violations_of_the_ledger(found, pruned=self._pruned),
                *_unpublished(reading),
                *_miscounted(reading, self._before, found, has_table=self._table is not None),
                *_went_back(self._before, found),
            ]
            self._connection.rollback()
        except (psycopg2.OperationalError, psycopg2.InterfaceError):
            self.close()
            return False
        self._before = found
        self._seen |= dict.fromkeys(seen)
        self.looks += 1
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextmanager
def watch(url: str, pipeline: str, table: str | None, *, every: float = 0.05, pruned: bool = False) -> Iterator[Watch]:
    """Check in a thread every `every` seconds, and once more at the end: `with watch(...) as seen: ...`, then `seen.violations`.

    It pauses for at least as long as a look takes. In a long history a look takes longer, and it must not slow down the processes under test.
    """
    seen = Watch(url, pipeline, table, pruned=pruned)
    enough = threading.Event()
    trouble: list[BaseException] = []

    def go_on() -> None:
        try:
            took = 0.0
            while not enough.wait(max(every, took)):
                began = time.monotonic()
                seen.look()
                took = time.monotonic() - began
            seen.look()
        except BaseException as error:  # noqa: BLE001 - raised where the watch ends
            trouble.append(error)

    thread = threading.Thread(target=go_on, name="watch", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        enough.set()
        thread.join()
        seen.close()
    if trouble:
        raise trouble[0]


def _unpublished(reading: Reading) -> Iterator[Violation]:
    """Yield rows and rejects of batches that are not published: a reader would see uncommitted work.

    Only offsets that such a batch could write are read: reading every row many times a second takes too long.
    """
    early = reading.ask(UNPUBLISHED_REJECTS)
    if reading.table is not None:
        early += reading.ask(SQL(UNPUBLISHED_ROWS).format(table=reading.table))
    for batch_id, state, topic, partition, offset in early:
        text = f"a row or a reject of batch {batch_id}, which is {state}"
        yield Violation("unpublished", f"{topic}/{partition} offset {offset}", text)


def _miscounted(reading: Reading, before: Found | None, found: Found, *, has_table: bool) -> Iterator[Violation]:
    """Compare rows and rejects with the counts of ranges that may just have changed: a reader must never see part of a batch."""
    streams = {stream.stream_id: stream for stream in found.streams}
    for piece in _touched(before, found):
        stream = streams[piece.stream_id]
        bound = {"start": piece.start, "end": piece.end, "stream_id": piece.stream_id}
        written = 0
        if reading.table is not None:
            place = {"topic_id": stream.topic_id, "partition": stream.partition}
            [(written,)] = reading.ask(SQL(WRITTEN).format(table=reading.table), **bound, **place)
        [(rejected,)] = reading.ask(REJECTED, **bound)
        there = {"n_written": written} if has_table else {}
        there["n_rejected"] = rejected
        for name, number in there.items():
            if getattr(piece, name) != number:
                text = f"{name} is {getattr(piece, name)}, and a reader sees {number}"
                yield Violation("miscounted", f"batch {piece.batch_id} in {stream}", text)


def _touched(before: Found | None, found: Found) -> Sequence[Range]:
    """Return ranges that their batch owns completely, near a batch that is new or open."""
    known = set() if before is None else set(before.batches)
    changed = {b.batch_id for b in found.batches if b not in known or b.state in OPEN}
    moving = [piece for piece in found.ranges if piece.batch_id in changed]
    owned = {
        (piece.batch_id, piece.stream_id, piece.start, piece.end)
        for piece in found.coverage
        if any(m.stream_id == piece.stream_id and m.start < piece.end and piece.start < m.end for m in moving)
    }
    return [p for p in found.ranges if (p.batch_id, p.stream_id, p.start, p.end) in owned]


def _went_back(before: Found | None, found: Found) -> Iterator[Violation]:
    """Yield decreases of what may only increase: heads, fences, covered offsets, and the published state."""
    if before is None:
        return
    streams = {stream.stream_id: stream for stream in found.streams}
    batches = {batch.batch_id: batch for batch in found.batches}
    for old in before.streams:
        new = streams.get(old.stream_id)
        if new is None or new.next_offset < old.next_offset:
            yield Violation("head moved back", str(old), f"was {old.next_offset}, is {new and new.next_offset}")
    for was in before.batches:
        now = batches.get(was.batch_id)
        if now is None or now.fence < was.fence:
            yield Violation("fence", f"batch {was.batch_id}", f"was {was.fence}, is {now and now.fence}")
        elif was.state in PUBLISHED and now.state not in PUBLISHED:
            yield Violation("illegal transition", f"batch {was.batch_id}", f"was {was.state}, is {now.state}")
    covered, covered_now = _covered(before), _covered(found)
    for stream_id, number in covered.items():
        if covered_now.get(stream_id, 0) < number:
            text = f"{number} offsets had an owner, {covered_now.get(stream_id, 0)} have one"
            yield Violation("forgotten", f"stream {stream_id}", text)


def _covered(found: Found) -> dict[int, int]:
    covered: dict[int, int] = {}
    for piece in found.coverage:
        covered[piece.stream_id] = covered.get(piece.stream_id, 0) + piece.end - piece.start
    return covered
