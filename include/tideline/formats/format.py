"""What a format is given and what it returns: bytes of one batch become Arrow columns, or rejects by position.

The law of every format: a record is decoded as if it were alone. What its neighbours are, and how many there are, changes
neither its row nor whether it is a reject. tests/unit/test_format_contract.py holds every format to it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tideline.declaration.source import Key, Value
from tideline.domain.columns import ColumnType, parse_type
from tideline.domain.schemas import Part, Schemas
from tideline.formats.undeclared import Undeclared

NULL = "value is null: a tombstone holds no value"
"""The reason of a record without bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecords:
    """The bytes of one batch of records: arrays of one length, with null where a record has none."""

    part: Part
    """Which of them the format decodes. The others say what it is, as the id of a schema in a header does."""
    keys: pa.Array | pa.ChunkedArray
    values: pa.Array | pa.ChunkedArray
    headers: pa.Array | pa.ChunkedArray | None = None
    """The headers of each record as JSON text, as in `kafka.headers`; None where the source of the records has none."""

    @property
    def own(self) -> pa.Array | pa.ChunkedArray:
        """Return the bytes to decode."""
        return self.keys if self.part == "key" else self.values

    def of(self, part: Part) -> "RawRecords":
        """Return the same records for the format of keys, or of values."""
        return replace(self, part=part)

    def take(self, positions: pa.Int64Array) -> "RawRecords":
        """Return the records at these positions."""
        headers = None if self.headers is None else self.headers.take(positions)
        return replace(self, keys=self.keys.take(positions), values=self.values.take(positions), headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedDeletions:
    """Records that hold no row, but say that there is none any more."""

    positions: pa.Int64Array
    """Their positions in the input, ascending."""
    table: pa.Table
    """What they say besides, such as their place in the log of a database, which rows have as columns too. Null where a record does not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One decoded batch: every position of the input is either in `kept` or in `rejected`, or among the deletions."""

    table: pa.Table
    """The fields of the good records, in the order of the input."""
    kept: pa.Int64Array
    """The position in the input of each row of `table`, ascending, counted from 0."""
    rejected: dict[int, str]
    """The reason by position, ascending. A reason is one readable line of at most 500 characters."""
    undeclared: Mapping[str, Undeclared] = field(default_factory=dict)
    """The fields of records, bad ones too, that no column takes: by name, or path within a struct."""
    deletions: DecodedDeletions | None = None
    """The records that delete. None of a format whose values do not say so: there a null value is a reject."""


Decode = Callable[[RawRecords], Decoded]
"""Decodes one batch. It accepts any bytes."""


class Format(Protocol):
    """How the bytes of keys or of values become columns. It travels to the executors, so it can be pickled."""

    def decoder(self, schemas: Schemas) -> Decode:
        """Return what decodes the batches of one task, one after the other. It may keep what it has learned from earlier ones.

        Args:
            schemas: Finds the schemas that records name by an id.
        """


@runtime_checkable
class TellsDeletions(Protocol):
    """A format whose values say which of them delete. So it is given null ones too, and returns `Decoded.deletions`."""

    def beside_key(self, names: Collection[str]) -> Format:
        """Return the format for records whose keys become columns with these names, which are therefore no undeclared fields of the value."""


MakesFormat = Callable[[Value | Key, Path], Format]
"""Makes a format of a section of the declaration. What the section names lies in the folder of the pipeline.

Raises:
    FatalError: What it names is not there, or does not fit the columns.
"""


def columns_of(section: Value | Key) -> dict[str, ColumnType]:
    """Return the declared columns of keys or of values."""
    return {name: parse_type(text) for name, text in section.columns.items()}
