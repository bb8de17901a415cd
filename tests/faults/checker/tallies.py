"""Counts: whether they add up, and whether they agree with the rows and rejects."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from faults.checker.facts import Coverage, Range, Stream, Violation
from faults.checker.index import Index


@dataclass(slots=True)
class Tally:
    """Numbers of rows and rejects at the offsets that a batch owns in one stream."""

    batch_id: int | None = None
    n_records: int = 0
    n_written: int = 0
    n_rejected: int = 0


def miscounts(index: Index, stream: Stream, tallies: Mapping[int, Tally]) -> Iterator[Violation]:
    """Compare counts with tallies, only for ranges that their batch owns completely.

    For other ranges it is unknown how much of the counts a replay has taken over.
    """
    loaded = [piece for piece in index.ranges.get(stream.stream_id, ()) if index.claims_coverage(piece)]
    owned = _owned(loaded, index.coverage.get(stream.stream_id, ()))
    for piece in loaded:
        if owned[piece.batch_id] == piece.end - piece.start:
            tally = tallies.get(piece.batch_id, Tally())
            there = {
                "n_read": tally.n_records,
                "n_written": tally.n_written,
                "n_rejected": tally.n_rejected,
                "n_filtered": tally.n_records - tally.n_written - tally.n_rejected,
                "n_gap": piece.end - piece.start - tally.n_records,
            }
            wrong = [
                f"{name} is {getattr(piece, name)}, there are {n}"
                for name, n in there.items()
                if getattr(piece, name) != n
            ]
            if wrong:
                yield Violation("miscounted", f"batch {piece.batch_id} in {stream}", "; ".join(wrong))


def _owned(loaded: Sequence[Range], coverage: Sequence[Coverage]) -> dict[int, int]:
    """Return how many offsets of its range each batch owns."""
    ranges = {piece.batch_id: piece for piece in loaded}
    owned = dict.fromkeys(ranges, 0)
    for piece in coverage:
        if piece.batch_id in ranges:
            whole = ranges[piece.batch_id]
            owned[piece.batch_id] += max(0, min(piece.end, whole.end) - max(piece.start, whole.start))
    return owned


def counts(index: Index) -> Iterator[Violation]:
    for piece in index.found.ranges:
        where = f"batch {piece.batch_id} in stream {piece.stream_id}"
        numbers = (piece.n_read, piece.n_written, piece.n_rejected, piece.n_filtered, piece.n_gap)
        known = [number for number in numbers if number is not None]
        if not index.is_published(piece.batch_id):
            if known:
                yield Violation("counts", where, "has counts and is not published")
        elif len(known) < len(numbers):
            yield Violation("counts", where, "is published and has not all counts")
        elif problem := _does_not_add_up(piece, known):
            yield Violation("counts", where, problem)


def _does_not_add_up(piece: Range, known: Sequence[int]) -> str | None:
    n_read, n_written, n_rejected, n_filtered, n_gap = known
    if min(known) < 0:
        return "a count is below zero"
    if n_read != n_written + n_rejected + n_filtered:
        return f"{n_read} read are not {n_written} written, {n_rejected} rejected and {n_filtered} filtered"
    if n_read + n_gap != piece.end - piece.start:
        return f"{n_read} read and {n_gap} gaps are not the offsets of [{piece.start}, {piece.end})"
    if n_gap and not piece.gaps_allowed:
        return f"{n_gap} gaps, and none are allowed"
    return None
