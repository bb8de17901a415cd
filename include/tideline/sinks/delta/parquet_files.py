"""Write rows to Parquet files in an attempt's folder, one or more for each partition, with bounded memory. Runs in the executors' Python."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from pyarrow import fs

from tideline.sinks.delta.delta_parquet import OpenFile, TableFile, partition_text

_ROWS_AT_ONCE = 131_072
_BYTES_AT_ONCE = 64 << 20
"""Rows wait for others until there are so many rows or bytes: they become one row group of each partition's file."""
_FILE_BYTES = 256 << 20
_MOST_OPEN = 50


def as_text(files: list[TableFile]) -> str:
    """Return files as text that a task can report."""
    return json.dumps([asdict(file) for file in files])


def from_text(text: str | None) -> list[TableFile]:
    """Return the files that a task has reported."""
    return [TableFile(**one) for one in json.loads(text or "[]")]


class FileWriter:
    """Writes the rows of one task.

    Args:
        files: The table's folder.
        name: Returns the path of the file with this number.
        partition_by: The columns that the table is partitioned by. They are not in its files.
    """

    def __init__(self, files: fs.FileSystem, name: Callable[[int], str], partition_by: tuple[str, ...]) -> None:
        self._files, self._name, self._partition_by = files, name, partition_by
        self._waiting: list[pa.Table] = []
        self._open: dict[tuple[Any, ...], OpenFile] = {}
        self._done: list[TableFile] = []
        self._n_files = 0

    def write(self, rows: pa.Table) -> None:
        """Take rows up. They are written when enough of them wait."""
        self._waiting.append(rows)
        if (
            sum(map(len, self._waiting)) >= _ROWS_AT_ONCE
            or sum(table.nbytes for table in self._waiting) >= _BYTES_AT_ONCE
        ):
            self._flush()

    def close(self) -> list[TableFile]:
        """Finish all files, and return them."""
        self._flush()
        for key in list(self._open):
            self._finish(key)
        return self._done

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows, self._waiting = pa.concat_tables(self._waiting), []
        for key, part in self._parts(rows):
            if key not in self._open:
                if len(self._open) >= _MOST_OPEN:
                    self._finish(next(iter(self._open)))
                self._open[key] = self._begin(key, part.schema)
            self._open[key].write(part)
            if self._open[key].size() >= _FILE_BYTES:
                self._finish(key)

    def _parts(self, rows: pa.Table) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
        """Yield the rows of each partition, without the columns that say which it is."""
        if not self._partition_by:
            yield (), rows
            return
        numbered = rows.append_column("", pa.array(range(len(rows)), pa.int64()))
        grouped = numbered.select([*self._partition_by, ""]).group_by(list(self._partition_by), use_threads=False)
        found = grouped.aggregate([("", "list")])
        inside = rows.drop_columns(list(self._partition_by))
        keys = zip(*(found.column(name).to_pylist() for name in self._partition_by), strict=True)
        for key, places in zip(keys, found.column("_list"), strict=True):
            yield key, inside.take(places.values)

    def _begin(self, key: tuple[Any, ...], schema: pa.Schema) -> OpenFile:
        self._n_files += 1
        partition = {name: partition_text(value) for name, value in zip(self._partition_by, key, strict=True)}
        return OpenFile(self._files, self._name(self._n_files), schema, partition)

    def _finish(self, key: tuple[Any, ...]) -> None:
        self._done.append(self._open.pop(key).close())
