"""Count rows by the offset of their record, with one byte for each offset of a batch: as much memory for five million rows as for one per record."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.ledger.attempts import Range
from tideline.ledger.publishing import Written
from tideline.sinks.sink import Refused

_MANY = 255


@dataclass(slots=True)
class Marked:
    """How many rows each record of a batch has, up to 255. Not for re-drives, whose ranges hold few of their offsets."""

    ranges: Sequence[Range]
    n_rows: int = 0
    _marks: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)

    def add(self, rows: pa.Table) -> tuple[int, int, int] | None:
        """Count rows by stream and offset. Return stream, lowest and highest offset of rows that the batch does not have, else None."""
        self.n_rows += len(rows)
        for stream in pc.unique(rows["stream"]).to_pylist():
            offsets = rows.filter(pc.equal(rows["stream"], stream))["offset"].to_numpy()
            piece = next((one for one in self.ranges if one.stream_id == stream), None)
            low, high = int(offsets.min()), int(offsets.max())
            if piece is None or low < piece.offsets.start or high >= piece.offsets.end:
                return stream, low, high
            marks = self._marks.setdefault(stream, np.zeros(len(piece.offsets), np.uint8))
            places, counts = np.unique(offsets - piece.offsets.start, return_counts=True)
            marks[places] = np.minimum(marks[places].astype(np.int64) + counts, _MANY)
        return None

    def doubled(self, reason: str) -> list[Refused]:
        """Return the records that have more than one row."""
        return [
            Refused(piece.stream_id, piece.offsets.start + int(place), reason)
            for piece in self.ranges
            for place in np.flatnonzero(self._of(piece) > 1)
        ]

    def written_without(self, rejected: pa.Table) -> tuple[int, Written]:
        """Return how many rows belong to records that are not rejected, and how many such records each stream has. Forgets the others.

        The number of rows is exact if no record has several rows.
        """
        for piece in self.ranges:
            offsets = rejected.filter(pc.equal(rejected["stream"], piece.stream_id))["offset"].to_numpy()
            if piece.stream_id in self._marks:
                self._marks[piece.stream_id][offsets - piece.offsets.start] = 0
        n_written = {stream: int(np.count_nonzero(marks)) for stream, marks in self._marks.items()}
        return sum(n_written.values()), Written(n_written={stream: n for stream, n in n_written.items() if n})

    def _of(self, piece: Range) -> npt.NDArray[np.uint8]:
        return self._marks.get(piece.stream_id, np.zeros(0, np.uint8))
