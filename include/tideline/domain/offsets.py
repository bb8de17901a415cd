"""Half-open ranges of Kafka offsets and their arithmetic. Standard library only; it knows no broker and no ledger."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LAST = 2**63 - 1
"""Every offset is lower: Kafka and the ledger's columns use signed 64-bit integers."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets `start <= offset < end` of one stream; `end` is the next offset to read.

    Never empty and never unbounded: Kafka's "earliest", "latest" and -1 cannot be represented.

    Raises:
        ValueError: `start` is negative, `end` is not above `start`, or `end` is above `LAST`.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.start < 0:
            raise ValueError(f"offset range must start at 0 or later, got [{self.start}, {self.end})")
        if self.end <= self.start:
            raise ValueError(f"offset range must not be empty, got [{self.start}, {self.end})")
        if self.end > LAST:
            raise ValueError(f"offset range must end at {LAST} or before, got [{self.start}, {self.end})")

    def __len__(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end

    def overlaps(self, other: "OffsetRange") -> bool:
        """Return whether the two share at least one offset."""
        return self.start < other.end and other.start < self.end

    def first(self, count: int) -> "OffsetRange":
        """Return the first `count` offsets, or all of them if there are fewer."""
        return OffsetRange(self.start, min(self.end, self.start + count))


def subtract(whole: OffsetRange, taken: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """Yield the parts of `whole` that no range of `taken` covers, in ascending order, as few ranges as possible.

    The ranges of `taken` may overlap, may lie outside of `whole`, and may have any order.
    """
    start = whole.start
    for piece in sorted(taken):
        if piece.end <= start or piece.start >= whole.end:
            continue
        if piece.start > start:
            yield OffsetRange(start, piece.start)
        start = piece.end
    if start < whole.end:
        yield OffsetRange(start, whole.end)


def union(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Return the same offsets in ascending order, as few ranges as possible."""
    merged: list[OffsetRange] = []
    for piece in sorted(ranges):
        if merged and piece.start <= merged[-1].end:
            merged[-1] = OffsetRange(merged[-1].start, max(merged[-1].end, piece.end))
        else:
            merged.append(piece)
    return merged
