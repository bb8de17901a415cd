"""The coverage map: each partition as a bar of at most some hundred cells, drawn from what the ledger and the brokers know."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tideline.ledger import queries
from tideline.ledger.connection import Ledger
from tideline.ledger.queries import Row

MEANINGS = {
    "loaded": "loaded",
    "rejected": "loaded, and some records were rejected; the higher, the more",
    "empty": "loaded, and Kafka had no record at some offsets",
    "open": "in a batch that is not published yet",
    "unread": "not read yet",
    "skipped": "skipped by a person",
    "lost": "lost: Kafka had deleted the records",
    "rewound": "rewound, and to be loaded again",
    "missing": "missing: nothing accounts for it, the ledger is damaged",
}
"""What a cell can say."""
_AMISS = ("missing", "lost", "skipped", "rewound", "rejected")
"""What is said of a bar also in words, the worst first."""
_MOST_CELLS, _LEAST_CELLS = 240, 24
"""Of a bar: more are narrower than a line on a wide screen, fewer show too little."""
_CELLS_OF_A_MAP = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Equal neighbouring cells of a bar."""

    what: str
    shade: int
    """How many were rejected, from 1 to 3, in the worst batch; 0 for anything else."""
    start: int
    end: int
    worst_share: float
    """Of the offsets of a batch: how many were rejected in the worst one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """All cells of one kind and shade in a bar, as one line of an SVG."""

    what: str
    shade: int
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One partition, or a stretch of it."""

    stream_id: int
    label: str
    state: str
    start: int
    end: int
    head: int
    lag: int | None
    why: str | None
    n_cells: int
    """The width of the bar, in the unit of its shapes."""
    shapes: Sequence[Shape]
    counts: Mapping[str, int]
    """Offsets by what has become of them."""

    def summary(self) -> str:
        """Return what the bar shows, for those who cannot see it."""
        listed = ", ".join(f"{self.counts[what]:,} {what}" for what in MEANINGS if self.counts[what]) or "empty"
        return f"{self.label}, offsets {self.start:,} to {self.end:,}: {listed}"

    def amiss(self) -> str:
        """Return in words what is amiss; nothing if all is well."""
        return ", ".join(f"{self.counts[what]:,} {what}" for what in _AMISS if self.counts[what])


def bars(ledger: Ledger, pipeline: str, streams: Sequence[Row]) -> list[Bar]:
    """Return a bar for each stream, from its start to the end of its log, or to its head if that is unknown."""
    known = [row for row in streams if row["stream_id"] is not None]
    stretches = {row["stream_id"]: (row["start_offset"], _end(row)) for row in known}
    n_cells = max(_LEAST_CELLS, min(_MOST_CELLS, _CELLS_OF_A_MAP // max(1, len(stretches))))
    found = {row["stream_id"]: row for row in queries.cells(ledger, pipeline, stretches, n_cells=n_cells)}
    return [_bar(row, *stretches[row["stream_id"]], found.get(row["stream_id"])) for row in known]


def stretch(ledger: Ledger, pipeline: str, row: Row, start: int, end: int) -> tuple[Bar, list[Cell]]:
    """Return the bar of a stretch of one stream, and its cells."""
    (found,) = queries.cells(ledger, pipeline, {row["stream_id"]: (start, end)}, n_cells=_MOST_CELLS)
    return _bar(row, start, end, found), cells(found, start, end)


def cells(found: Row, start: int, end: int) -> list[Cell]:
    """Return the cells of a stretch, equal neighbours joined, from a row of `queries.cells`."""
    length, n = end - start, len(found["whats"])
    edges = [start + (cell * length + n - 1) // n for cell in range(n + 1)]
    return [
        Cell(
            what=what,
            shade=shade,
            start=edges[first],
            end=edges[last],
            worst_share=max(found["worst_shares"][first:last]),
        )
        for (what, shade), first, last in _islands(found)
    ]


def _islands(found: Row) -> Iterator[tuple[tuple[str, int], int, int]]:
    """Yield kind and shade of equal neighbouring cells, the first of them, and the one after the last."""
    first = 0
    for kind, equal in groupby(zip(found["whats"], found["shades"], strict=True)):
        last = first + sum(1 for _ in equal)
        yield kind, first, last
        first = last


def _end(row: Row) -> int:
    reserved = max((end for _, end in row.get("reserved", ())), default=0)
    return int(max(row["head"], row["end"] or 0, reserved))


def _bar(row: Row, start: int, end: int, found: Row | None) -> Bar:
    counts = {what: found[f"n_{what}"] if found else 0 for what in MEANINGS if what != "loaded"}
    return Bar(
        stream_id=row["stream_id"],
        label=f"{row['topic']}/{row['partition']}",
        state="stopping" if row["will_stop"] else row["state"],
        start=start,
        end=end,
        head=row["head"],
        lag=row["lag"],
        why=row["why"],
        n_cells=len(found["whats"]) if found else 1,
        shapes=_shapes(found) if found else (),
        counts={"loaded": end - start - sum(counts.values())} | counts,
    )


def _shapes(found: Row) -> list[Shape]:
    """Draw each kind as one line of dashes, which moves over what is of another kind.

    A shape for each cell would make the map of 500 partitions ten times as long. The most frequent kind is a line from end to end beneath
    the others: shorter, and no background shines through where two cells meet.
    """
    dashes: dict[tuple[str, int], list[str]] = {}
    ends: Counter[tuple[str, int]] = Counter()
    drawn: Counter[tuple[str, int]] = Counter()
    for kind, first, last in _islands(found):
        dashes.setdefault(kind, []).append(f"m{first - ends[kind]} 0h{last - first}")
        ends[kind] = last
        drawn[kind] += last - first
    most = max(drawn, key=drawn.__getitem__)
    del dashes[most]
    lines = {most: f"M0 10h{drawn.total()}"} | {kind: f"M0 10{''.join(moves)}" for kind, moves in dashes.items()}
    return [Shape(what=what, shade=shade, line=line) for (what, shade), line in lines.items()]
