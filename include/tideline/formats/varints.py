"""Write whole numbers as Avro and the frame of Protobuf's schemas have them. `Cursor.longs` reads them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEVEN_BITS, _MORE = 0x7F, 0x80
_MOST_GROUPS = 10
"""The most bytes of a number of 64 bits."""


def varints(numbers: npt.NDArray[Any]) -> pa.BinaryArray:
    """Return each whole number with its sign as the last bit, and seven bits in each byte, the lowest first."""
    signed = numbers.astype(np.int64)
    zigzag = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    groups = zigzag[:, None] >> np.arange(0, 7 * _MOST_GROUPS, 7, dtype=np.uint64)
    lengths = np.maximum((groups != 0).sum(axis=1), 1)
    places = np.arange(_MOST_GROUPS)
    digits = (groups & np.uint64(_SEVEN_BITS)).astype(np.uint8)
    digits[places < lengths[:, None] - 1] |= _MORE
    content = digits[places < lengths[:, None]]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(signed), [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(content.tobytes())]
    )
