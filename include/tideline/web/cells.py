"""The coverage map: each partition as a bar of at most some hundred cells, drawn from what the ledger and the brokers know."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tideline.ledger import queries
from tideline.ledger.connection import Ledger
from tideline.ledger.queries import Row

MEANINGS = {
    "loaded": "loaded",
    "rejected": "loaded, and some records were rejected",
    "empty": "loaded, and Kafka had no record at some offsets",
    "open": "in a batch that is not published yet",
    "unread": "not read yet",
    "skipped": "skipped by a person",
    "lost": "lost: Kafka had deleted the records",
    "rewound": "rewound, and to be loaded again",
    "missing": "missing: nothing accounts for it, the ledger is damaged",
}
"""What a cell can say, from harmless to bad."""
WIDTH = 1_000
_FEW_PARTITIONS = 60
_MANY_CELLS, _FEW_CELLS = 240, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Equal neighbouring cells of a bar."""

    what: str
    start: int
    end: int
    left: float
    width: float
    share: float
    """Of its offsets: how many were rejected, or were empty."""


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
    cells: Sequence[Cell]

    def summary(self) -> str:
        """Return what the bar shows, for those who cannot see it."""
        sums: dict[str, int] = {}
        for cell in self.cells:
            sums[cell.what] = sums.get(cell.what, 0) + cell.end - cell.start
        listed = ", ".join(f"{size:,} {what}" for what, size in sums.items()) or "empty"
        return f"{self.label}, offsets {self.start:,} to {self.end:,}: {listed}"


def bars(ledger: Ledger, pipeline: str, streams: Sequence[Row]) -> list[Bar]:
    """Return a bar for each stream, from its start to the end of its log, or to its head if that is unknown."""
    stretches = {row["stream_id"]: (row["start_offset"], _end(row)) for row in streams if row["stream_id"] is not None}
    n_cells = _MANY_CELLS if len(stretches) <= _FEW_PARTITIONS else _FEW_CELLS
    found = _by_stream(queries.cells(ledger, pipeline, stretches, n_cells=n_cells))
    return [
        _bar(row, *stretches[row["stream_id"]], found.get(row["stream_id"], []))
        for row in streams
        if row["stream_id"] is not None
    ]


def stretch(ledger: Ledger, pipeline: str, row: Row, start: int, end: int) -> Bar:
    """Return the bar of a stretch of one stream."""
    found = queries.cells(ledger, pipeline, {row["stream_id"]: (start, end)}, n_cells=_MANY_CELLS)
    return _bar(row, start, end, found)


def _end(row: Row) -> int:
    reserved = max((end for _, end in row.get("reserved", ())), default=0)
    return int(max(row["head"], row["end"] or 0, reserved))


def _by_stream(rows: Iterable[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row["stream_id"], []).append(row)
    return found


def _bar(row: Row, start: int, end: int, pieces: Iterable[Row]) -> Bar:
    length = max(1, end - start)
    cells = [
        Cell(
            what=piece["what"],
            start=piece["start_offset"],
            end=piece["end_offset"],
            left=round((piece["start_offset"] - start) * WIDTH / length, 2),
            width=round((piece["end_offset"] - piece["start_offset"]) * WIDTH / length, 2),
            share=max(piece["n_rejected"], piece["n_empty"]) / (piece["end_offset"] - piece["start_offset"]),
        )
        for piece in pieces
    ]
    return Bar(
        stream_id=row["stream_id"],
        label=f"{row['topic']}/{row['partition']}",
        state="stopping" if row["will_stop"] else row["state"],
        start=start,
        end=end,
        head=row["head"],
        lag=row["lag"],
        why=row["why"],
        cells=cells,
    )
