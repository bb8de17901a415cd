"""Exchange the records of a stateful batch between tasks. Spark moves pieces: records of one stream, whose keys are in one bucket.

A piece is one row, with its records in Arrow's own form. Spark converts, measures, hashes and compares each row that it
moves. With a row for each record, that took more time than all other work of a fold.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import ceil
from typing import NamedTuple, TypeVar
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.state.arrow_records import STREAM, keys_of, streams_of

BUCKET, FIRST, PIECE = "tideline_bucket", "tideline_first", "tideline_piece"
SCHEMA = pa.schema([(BUCKET, pa.int32()), (STREAM, pa.int64()), (FIRST, pa.int64()), (PIECE, pa.binary())])
"""The columns of pieces. `FIRST` is the offset of the first record."""
_SORTED_AT_ONCE = 100_000, 16 << 20
"""Records and bytes. With fewer, each bucket would get a piece of a few records only."""
_FOLDED_AT_ONCE = 10_000, 8 << 20
"""Records and bytes. They become Python objects, which need about ten times as much memory."""

_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)


class Piece(NamedTuple):
    """Records of one bucket and one stream, in the order of their offsets."""

    bucket: int
    stream: int
    first: int
    records: pa.RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """How the records of a batch are divided. It is pickled with each task."""

    count: int
    schema: pa.Schema
    """Of keyed tables."""

    @classmethod
    def for_records(cls, schema: pa.Schema, n_records: int, *, n_tasks: int, most_keys: int) -> "Buckets":
        """Return buckets of about so many keys at most, equally many for each task.

        The keys of a bucket are folded side by side, so their number limits the memory of a task.
        """
        return cls(count=n_tasks * max(1, ceil(n_records / (n_tasks * most_keys))), schema=schema)

    def packed(self, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield the records of keyed tables as pieces.

        Args:
            tables: The records. Those of one stream come in the order of their offsets, from one table to the next.
        """
        for group in _gathered(tables, *_SORTED_AT_ONCE):
            yield self._packed(pa.concat_tables(group))

    def _packed(self, table: pa.Table) -> pa.RecordBatch:
        offsets = pc.struct_field(table.column("kafka").combine_chunks(), "offset")
        hashes = np.fromiter(map(crc32, keys_of(table).cast(pa.binary()).to_pylist()), np.int64, len(table))
        places = pa.table({BUCKET: hashes % self.count, STREAM: streams_of(table), FIRST: offsets})
        order = pc.sort_indices(places, [(name, "ascending") for name in places.column_names])
        places = places.take(order)
        [records] = table.cast(self.schema).take(order).combine_chunks().to_batches()
        starts = _starts(places.column(BUCKET), places.column(STREAM))
        pieces = [
            records.slice(start, end - start).serialize().to_pybytes() for start, end in pairwise([*starts, len(table)])
        ]
        firsts = places.take(pa.array(starts)).append_column(PIECE, pa.array(pieces, pa.binary()))
        [packed] = firsts.cast(SCHEMA).combine_chunks().to_batches()
        return packed

    def unpacked(self, pieces: Iterable[pa.Table]) -> Iterator[Iterator[pa.Table]]:
        """Yield the keyed tables of each bucket, in parts that fit into memory. Within a bucket, records come in the order of stream and offset.

        Args:
            pieces: Tables of pieces, which are sorted by bucket, stream and first offset.
        """
        for _, of_bucket in groupby(self._pieces(pieces), lambda piece: piece.bucket):
            yield map(pa.Table.from_batches, _gathered(_in_order(of_bucket), *_FOLDED_AT_ONCE))

    def _pieces(self, tables: Iterable[pa.Table]) -> Iterator[Piece]:
        for table in tables:
            places = (table.column(name).to_pylist() for name in (BUCKET, STREAM, FIRST))
            for bucket, stream, first, packed in zip(*places, table.column(PIECE), strict=True):
                records = pa.ipc.read_record_batch(packed.as_buffer(), self.schema)
                yield Piece(bucket, stream, first, records)


def _in_order(pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """Yield the records of a bucket. Records that were folded in another order than that of their offsets would give wrong states."""
    stream, last = None, -1
    for piece in pieces:
        if piece.stream == stream and piece.first <= last:
            raise AssertionError(
                f"the records of stream {stream} do not come in order: offset {piece.first} after {last}"
            )
        stream, last = piece.stream, piece.records.column("kafka")[-1]["offset"].as_py()
        yield piece.records


def _starts(*columns: pa.ChunkedArray) -> list[int]:
    """Return the positions at which one of the columns changes, and the first one."""
    changes = [np.diff(column.to_numpy()) != 0 for column in columns]
    return [0, *(np.flatnonzero(np.logical_or.reduce(changes)) + 1).tolist()]


def _gathered(tables: Iterable[_Rows], most_records: int, most_bytes: int) -> Iterator[list[_Rows]]:
    """Yield tables, or batches, in groups of about the size that is asked for. Larger ones are cut."""
    waiting: list[_Rows] = []
    n_records = n_bytes = 0
    for table in tables:
        bytes_of_one = table.nbytes / max(len(table), 1)
        size = max(1, min(most_records, int(most_bytes / max(bytes_of_one, 1))))
        for part in [table] if 0 < len(table) <= size else (table.slice(at, size) for at in range(0, len(table), size)):
            length = int(len(part) * bytes_of_one)
            if waiting and (n_records + len(part) > most_records or n_bytes + length > most_bytes):
                yield waiting
                waiting, n_records, n_bytes = [], 0, 0
            waiting.append(part)
            n_records, n_bytes = n_records + len(part), n_bytes + length
    if waiting:
        yield waiting
