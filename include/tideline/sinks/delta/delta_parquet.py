"""Write Parquet files into the folder of a Delta table. Readers see none of them before it is committed."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as at
from deltalake.transaction import AddAction
from pyarrow import fs

from tideline.sinks.delta.delta_statistics import statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file that was written and is not in the table yet."""

    path: str
    """Relative to the table's folder."""
    size: int
    n_rows: int
    partition: Mapping[str, str | None]
    stats: str
    """Statistics as JSON, as the log of the table keeps them."""

    def added(self, *, changes_data: bool = True) -> AddAction:
        """Return the action that adds it to the table. `changes_data` is false if its rows are those of files that go."""
        return AddAction(self.path, self.size, dict(self.partition), int(time.time() * 1000), changes_data, self.stats)


def partition_text(value: object) -> str | None:
    """Return a partition's value as the log writes it."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


class OpenFile:
    """One file that is being written."""

    def __init__(self, files: fs.FileSystem, path: str, schema: pa.Schema, partition: Mapping[str, str | None]) -> None:
        self.path, self.partition, self.n_rows = path, partition, 0
        self._metadata: list[pq.FileMetaData] = []
        self._files = files
        self._out = files.open_output_stream(path)
        self._writer = pq.ParquetWriter(
            self._out,
            schema,
            compression="zstd",
            compression_level=1,
            coerce_timestamps="us",
            metadata_collector=self._metadata,
        )

    def write(self, rows: pa.Table) -> None:
        """Write rows as one row group."""
        self._writer.write_table(rows)
        self.n_rows += len(rows)

    def size(self) -> int:
        """Return how many bytes are written."""
        return int(self._out.tell())

    def close(self) -> TableFile:
        """Finish the file."""
        self._writer.close()
        size = self.size()
        self._out.close()
        stats = json.dumps(statistics(self._metadata[0]))
        return TableFile(path=self.path, size=size, n_rows=self.n_rows, partition=self.partition, stats=stats)


def rewritten(
    files: fs.FileSystem, path: str, to: str, partition: Mapping[str, str | None], keep: Callable[[pa.Table], pa.Array]
) -> TableFile | None:
    """Copy the rows of a file that `keep` selects to another file. None if there are none."""
    made: OpenFile | None = None
    with files.open_input_file(path) as source:
        old = pq.ParquetFile(source)
        for number in range(old.num_row_groups):
            group = _without_views(old.read_row_group(number))
            rows = group.filter(keep(group))
            if len(rows):
                made = made or OpenFile(files, to, rows.schema, partition)
                made.write(rows)
    return made.close() if made else None


def _without_views(rows: pa.Table) -> pa.Table:
    """Return rows with the types of this sink. Files that delta-rs has written by a DELETE have texts as views, whose rows cannot be selected."""
    return rows.cast(pa.schema([field.with_type(_plain(field.type)) for field in rows.schema], rows.schema.metadata))


def _plain(kind: pa.DataType) -> pa.DataType:
    if at.is_string_view(kind):
        return pa.string()
    if at.is_binary_view(kind):
        return pa.binary()
    if at.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if at.is_struct(kind):
        return pa.struct([part.with_type(_plain(part.type)) for part in kind])
    if at.is_map(kind):
        return pa.map_(_plain(kind.key_type), kind.item_field.with_type(_plain(kind.item_type)))
    return kind
