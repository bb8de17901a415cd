"""Ownership of offsets: compares coverage with heads, with the ranges of batches, and with the order in which batches were published."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise

from faults.checker.facts import Coverage, Range, Violation
from faults.checker.index import PUBLISHED, REDRIVE, Index

HOLES = frozenset({"skipped", "lost", "rewound"})


def gap(index: Index) -> Iterator[Violation]:
    for stream in index.found.streams:
        at = stream.start_offset
        for piece in index.coverage.get(stream.stream_id, ()):
            if at < piece.start < stream.next_offset:
                yield Violation(
                    "gap",
                    str(stream),
                    f"[{at}, {piece.start}) has no owner, and the head is {stream.next_offset}",
                )
            at = max(at, piece.end)


def head_beyond_coverage(index: Index) -> Iterator[Violation]:
    for stream in index.found.streams:
        before = (piece.end for piece in index.coverage.get(stream.stream_id, ()) if piece.start < stream.next_offset)
        reached = max(before, default=stream.start_offset)
        if max(reached, stream.start_offset) < stream.next_offset:
            yield Violation(
                "head beyond coverage", str(stream), f"coverage ends at {reached}, the head is {stream.next_offset}"
            )


def overlap(index: Index) -> Iterator[Violation]:
    for stream in index.found.streams:
        last: Coverage | None = None
        for piece in index.coverage.get(stream.stream_id, ()):
            if last is not None and piece.start < last.end:
                yield Violation("overlap", str(stream), f"{_named(last)} and {_named(piece)} own the same offsets")
            if last is None or piece.end > last.end:
                last = piece


def owner(index: Index) -> Iterator[Violation]:
    ranges = {(piece.batch_id, piece.stream_id): piece for piece in index.found.ranges}
    for piece in index.found.coverage:
        if problem := _no_owner(index, piece, ranges.get((piece.batch_id or 0, piece.stream_id))):
            yield Violation("owner", f"stream {piece.stream_id}", f"{_named(piece)} {problem}")


def _no_owner(index: Index, piece: Coverage, loaded: Range | None) -> str | None:
    if piece.start >= piece.end:
        return "is empty"
    if (piece.batch_id is None) == (piece.hole is None):
        return "must have either a batch or a hole"
    if piece.batch_id is None:
        return None
    if loaded is None or not loaded.start <= piece.start < piece.end <= loaded.end:
        return "is not in the ranges of the batch"
    if not index.claims_coverage(loaded):
        return f"is of a batch that is a {index.batches[piece.batch_id].kind} and {index.batches[piece.batch_id].state}"
    return None


def superseded(index: Index) -> Iterator[Violation]:
    owners = {piece.batch_id for piece in index.found.coverage}
    for batch in index.found.batches:
        if batch.state == "superseded" and batch.batch_id in owners:
            yield Violation("superseded", f"batch {batch.batch_id}", "is superseded and still owns offsets")
        elif batch.state in PUBLISHED - {"superseded"} and batch.kind != REDRIVE and batch.batch_id not in owners:
            yield Violation("superseded", f"batch {batch.batch_id}", f"owns nothing and is {batch.state}")


def hole(index: Index) -> Iterator[Violation]:
    for piece in index.found.coverage:
        if piece.hole is not None and not (piece.hole in HOLES and piece.reason and piece.decided_by):
            text = f"{_named(piece)} has the reason {piece.reason!r} and was decided by {piece.decided_by!r}"
            yield Violation("hole", f"stream {piece.stream_id}", text)


def forgotten_and_usurped(index: Index) -> Iterator[Violation]:
    for stream in index.found.streams:
        loaded = [piece for piece in index.ranges.get(stream.stream_id, ()) if index.claims_coverage(piece)]
        coverage = index.coverage.get(stream.stream_id, ())
        bounds = stream.start_offset, stream.next_offset
        for start, end, by, piece in _last_to_publish(index, loaded, coverage, bounds):
            if piece is None:
                if start >= stream.next_offset or end <= stream.start_offset:
                    yield Violation(
                        "forgotten", str(stream), f"[{start}, {end}) was published by batch {by}, and has no owner"
                    )
            elif piece.hole is not None or _order(index, piece.batch_id) < _order(index, by):
                yield Violation(
                    "usurped",
                    str(stream),
                    f"[{start}, {end}) was last published by batch {by}, and the owner is {_named(piece)}",
                )


def _last_to_publish(
    index: Index, loaded: Sequence[Range], coverage: Sequence[Coverage], bounds: tuple[int, int]
) -> Iterator[tuple[int, int, int, Coverage | None]]:
    """Yield start, end, the batch that published [start, end) last, and its coverage.

    One sweep over all edges and the stream's bounds.
    """
    pieces: list[Range | Coverage] = [*loaded, *coverage]
    edges = sorted({edge for piece in pieces for edge in (piece.start, piece.end)}.union(bounds))
    beginning = sorted(loaded, key=lambda piece: piece.start, reverse=True)
    owning = sorted(coverage, key=lambda piece: piece.start, reverse=True)
    newest: list[tuple[int, int, int]] = []  # the order is negated so that the latest batch is on top; batch; end
    owned: Coverage | None = None
    for start, end in pairwise(edges):
        while beginning and beginning[-1].start <= start:
            piece = beginning.pop()
            heappush(newest, (-_order(index, piece.batch_id), piece.batch_id, piece.end))
        while newest and newest[0][2] <= start:
            heappop(newest)
        while owning and owning[-1].start <= start:
            owned = owning.pop()
        if newest:
            yield start, end, newest[0][1], owned if owned is not None and owned.end > start else None


def _order(index: Index, batch_id: int | None) -> int:
    """Return the position of a batch in the order of publications; 0 where upkeep has deleted that event."""
    return index.published_by.get(batch_id or 0, 0)


def _named(piece: Coverage) -> str:
    who = f"the hole {piece.hole}" if piece.batch_id is None else f"batch {piece.batch_id}"
    return f"[{piece.start}, {piece.end}) of {who}"
