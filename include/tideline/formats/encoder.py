"""What an encoder is: it writes the columns of output rows as the bytes of values, one for each row."""

from collections.abc import Collection, Mapping
from typing import Protocol

import pyarrow as pa


class UnencodableError(ValueError):
    """A row that has no form in the format of an output, such as a NaN in JSON. The message says why, and names no other row."""


class Encoder(Protocol):
    """How columns become values. It travels to the executors, so it can be pickled."""

    @property
    def fields(self) -> Collection[str]:
        """The fields of its schema; none if it has no schema, and writes whatever columns there are."""

    def problems(self, columns: Mapping[str, pa.DataType]) -> list[str]:
        """Return what keeps rows with these columns from becoming values; nothing if they can. Then `encoded` may be called."""

    def encoded(self, columns: Mapping[str, pa.Array], length: int) -> pa.BinaryArray:
        """Return the bytes of each row.

        Args:
            columns: The columns by name.
            length: The number of rows, which matters without columns.

        Raises:
            UnencodableError: A row cannot be written.
            pa.ArrowInvalid: As above.
        """
