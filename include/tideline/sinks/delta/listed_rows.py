"""Tell the rows of one record apart by their item. A slice of a batch's offsets at a time, so that memory does not grow with the batch."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.domain.states import BatchKind
from tideline.ledger.attempts import Attempt
from tideline.ledger.publishing import Written
from tideline.sinks.sink import Refused

ROWS_AT_ONCE = 500_000
_KEY = ("stream", "offset")


@dataclass(slots=True)
class Listed:
    """Stream, offset and item of each row: of a re-drive, or of a slice."""

    attempt: Attempt
    item: str | None
    _tables: list[pa.Table] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """Return how many rows there are."""
        return sum(map(len, self._tables))

    def add(self, rows: pa.Table) -> tuple[int, int, int] | None:
        """Add rows. Return stream, lowest and highest offset of those that the batch does not have; None if it has all."""
        self._tables.append(rows)
        return _strange(rows, self.attempt)

    def doubled(self, reason: str) -> list[Refused]:
        """Return the records of which two rows have the same item, or which have two rows although none is declared."""
        if not self._tables:
            return []
        key = [*_KEY, *(["item"] if self.item else [])]
        counted = pa.concat_tables(self._tables).group_by(key).aggregate([([], "count_all")])
        if len(counted) == self.n_rows:
            return []
        several = counted.filter(pc.greater(counted["count_all"], 1)).group_by(list(_KEY)).aggregate([])
        twice = several.sort_by([(name, "ascending") for name in _KEY])
        pairs = zip(twice["stream"].to_pylist(), twice["offset"].to_pylist(), strict=True)
        return [Refused(stream, offset, reason) for stream, offset in pairs]

    def written_without(self, rejected: pa.Table) -> tuple[int, Written]:
        """Return how many rows belong to records that are not rejected, and these records."""
        if not self._tables:
            return 0, Written(n_written={})
        rows = pa.concat_tables(self._tables)
        kept = rows.join(rejected, list(_KEY), join_type="left anti") if len(rejected) else rows
        return len(kept), _written(kept, self.attempt)


@dataclass(slots=True)
class Sliced:
    """The rows of a batch whose records may have several rows. Of each file it keeps only which slices it holds, and reads it again for each.

    A slice is so many offsets as have ROWS_AT_ONCE rows on average.
    """

    attempt: Attempt
    item: str
    n_reported: int
    """Rows that the tasks have reported."""
    read: Callable[[int], pa.Table]
    """Returns stream, offset and item of each row of a file, which is named by the order in which it was added."""
    n_rows: int = 0
    _slices: list[set[int]] = field(default_factory=list)
    """By file."""
    _found: tuple[int, Counter[int]] | None = None
    """Rows, and records by stream, before any is rejected."""

    def add(self, rows: pa.Table) -> tuple[int, int, int] | None:
        """Take the rows of one file up. Return stream, lowest and highest offset of those that the batch does not have; None if it has all."""
        self.n_rows += len(rows)
        if (strange := _strange(rows, self.attempt)) is not None:
            return strange
        self._slices.append({*np.unique(self._slice_of(rows)).tolist()})
        return None

    def doubled(self, reason: str) -> list[Refused]:
        """Return the records of which two rows have the same item."""
        n_rows, n_written, twice = 0, Counter[int](), list[Refused]()
        for listed in self._listed():
            twice += listed.doubled(reason)
            n_rows += listed.n_rows
            n_written.update(listed.written_without(_NONE)[1].n_written)
        self._found = n_rows, n_written
        return twice

    def written_without(self, rejected: pa.Table) -> tuple[int, Written]:
        """Return how many rows belong to records that are not rejected, and how many such records each stream has."""
        if self._found is not None and not len(rejected):
            return self._found[0], Written(n_written=dict(self._found[1]))
        n_rows, n_written = 0, Counter[int]()
        for listed in self._listed():
            n_kept, written = listed.written_without(rejected)
            n_rows += n_kept
            n_written.update(written.n_written)
        return n_rows, Written(n_written=dict(n_written))

    def _listed(self) -> Iterator[Listed]:
        """Yield each slice with its rows."""
        for number in sorted(set().union(*self._slices)):
            listed = Listed(self.attempt, self.item)
            for file, slices in enumerate(self._slices):
                if number in slices:
                    rows = self.read(file)
                    listed.add(rows.filter(pa.array(self._slice_of(rows) == number)))
            yield listed

    def _slice_of(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """Return the slice of each row: the offsets of all streams, one stream behind the other, are cut into equal parts."""
        lengths = np.array([len(piece.offsets) for piece in self.attempt.ranges], np.int64)
        starts = np.array([piece.offsets.start for piece in self.attempt.ranges], np.int64)
        before = np.cumsum(lengths) - lengths
        n_slices = max(1, -(-self.n_reported // ROWS_AT_ONCE))
        streams = pa.array([piece.stream_id for piece in self.attempt.ranges], pa.int64())
        places = pc.index_in(rows["stream"], value_set=streams).to_numpy()
        positions = rows["offset"].to_numpy() + (before - starts)[places]
        found: npt.NDArray[np.int64] = positions // max(1, -(-int(lengths.sum()) // n_slices))
        return found


_NONE = pa.table({"stream": pa.array([], pa.int64()), "offset": pa.array([], pa.int64())})


def _strange(rows: pa.Table, attempt: Attempt) -> tuple[int, int, int] | None:
    ranges = {piece.stream_id: piece.offsets for piece in attempt.ranges}
    for stream, low, high in _bounds(rows):
        if stream not in ranges or low < ranges[stream].start or high >= ranges[stream].end:
            return stream, low, high
    return None


def _bounds(rows: pa.Table) -> list[tuple[int, int, int]]:
    found = rows.group_by("stream").aggregate([("offset", "min"), ("offset", "max")])
    return list(zip(*(found[name].to_pylist() for name in ("stream", "offset_min", "offset_max")), strict=True))


def _written(rows: pa.Table, attempt: Attempt) -> Written:
    records = rows.group_by(list(_KEY)).aggregate([])
    counted = records.group_by("stream").aggregate([("offset", "count")])
    n_written = dict(zip(counted["stream"].to_pylist(), counted["offset_count"].to_pylist(), strict=True))
    if attempt.kind is not BatchKind.REDRIVE:
        return Written(n_written=n_written)
    pairs = zip(records["stream"].to_pylist(), records["offset"].to_pylist(), strict=True)
    return Written(n_written=n_written, offsets=list(pairs))
