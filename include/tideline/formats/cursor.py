"""Read one primitive of many records at once: a position in the bytes of each record, which moves behind what was read.

The law: what is read of a record depends on its own bytes only, and never lies behind its end. A record with a fault stands at
its end from then on, so nothing more is read of it.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Rows = npt.NDArray[np.int64]
"""Numbers of records, ascending, each once."""
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
_ENDS = "ends in the middle of a value"
_LAST_SHIFT = 63


class Cursor:
    """The positions of the records of one batch.

    Args:
        bytes_: The records.
    """

    def __init__(self, bytes_: pa.BinaryArray) -> None:
        offsets = np.frombuffer(bytes_.buffers()[1], np.int32, len(bytes_) + 1, bytes_.offset * 4).astype(np.int64)
        self._buffer = bytes_.buffers()[2] or pa.py_buffer(b"")
        self.data = np.frombuffer(self._buffer, np.uint8)
        self.pos, self._end = offsets[:-1].copy(), offsets[1:]
        self.failed = np.zeros(len(bytes_), np.bool_)
        self.reasons: dict[int, str] = {}
        self.n_rounds = 0
        """How many rounds of items were read."""

    def fail(self, rows: Rows, reason: str | Callable[[int], str]) -> None:
        """Note a fault of records, unless they have one. Of the values that were read of them nothing is used."""
        rows = rows[~self.failed[rows]]
        if len(rows):
            self.reasons |= {int(row): reason if isinstance(reason, str) else reason(int(row)) for row in rows}
            self.failed[rows] = True
            self.pos[rows] = self._end[rows]

    def left(self, rows: Rows) -> Longs:
        """Return how many bytes are left of each record."""
        return self._end[rows] - self.pos[rows]

    def longs(self, rows: Rows) -> Longs:
        """Read a number of variable length: seven bits a byte, the lowest first, with the sign in the lowest bit."""
        value = np.zeros(len(rows), np.uint64)
        pos, end = self.pos[rows], self._end[rows]
        short, far = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        open_ = np.arange(len(rows))
        for shift in range(0, _LAST_SHIFT + 1, 7):
            at = pos[open_]
            ends = at >= end[open_]
            if ends.any():
                short[open_[ends]] = True
                open_, at = open_[~ends], at[~ends]
            if not len(open_):
                break
            byte = self.data[at]
            value[open_] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(shift)
            pos[open_] = at + 1
            if shift == _LAST_SHIFT:
                far[open_] = byte > 1
            open_ = open_[byte >= 0x80]  # noqa: PLR2004 - the highest bit: more bytes follow
        self.pos[rows] = pos
        self.fail(rows[short], _ENDS)
        self.fail(rows[far], "a number has more than 64 bits")
        return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)

    def sized(self, rows: Rows, size: int) -> Bytes:
        """Read so many bytes of each record: an array of bytes by record."""
        short = self.left(rows) < size
        if short.any():
            self.fail(rows[short], _ENDS)
        found = np.zeros((len(rows), size), np.uint8)
        fine = ~self.failed[rows]
        found[fine] = self.data[self.pos[rows[fine], None] + np.arange(size)]
        self.pos[rows[fine]] += size
        return found

    def lengths(self, rows: Rows) -> Longs:
        """Read the length of something that follows. It is there as a whole, else the record has a fault and the length is 0."""
        length = self.longs(rows)
        wrong = (length < 0) | (length > self.left(rows))
        if wrong.any():
            self.fail(rows[wrong], _ENDS)
            length[wrong] = 0
        length[self.failed[rows]] = 0
        return length

    def blobs(self, rows: Rows) -> pa.LargeBinaryArray:
        """Read bytes of variable length."""
        length = self.lengths(rows)
        if not len(rows):
            return pa.array([], pa.large_binary())
        start = self.pos[rows]
        self.pos[rows] = start + length
        # Every second of these is what lies between two values: records, and what is read of them, are in ascending order.
        offsets = np.empty(2 * len(rows), np.int64)
        offsets[0::2], offsets[1::2] = start, start + length
        found = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), 2 * len(rows) - 1, [None, pa.py_buffer(offsets), self._buffer]
        )
        return found.take(pa.array(np.arange(0, 2 * len(rows), 2)))

    def skip(self, rows: Rows, size: int | Longs) -> None:
        """Move behind so many bytes of each record."""
        short = self.left(rows) < size
        if short.any():
            self.fail(rows[short], _ENDS)
        fine = ~self.failed[rows]
        self.pos[rows[fine]] += size if isinstance(size, int) else size[fine]
