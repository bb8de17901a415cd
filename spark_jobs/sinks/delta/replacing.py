"""Replace the rows of a replay's ranges: remove the files that hold some, and keep their other rows in new files. Runs in the driver.

The law: after the commit, the table has of these ranges the rows of the replay and no others, and all rows of other ranges.
Files are chosen anew for each version of the table on which the commit is tried. What was rewritten before is used again.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import RemoveAction
from pyarrow import fs

from tideline.ledger.attempts import Range
from tideline.outside.delta_log import Change, plain_path
from tideline.outside.delta_parquet import TableFile, partition_text, rewritten

_COORDINATES = ["kafka_topic_id", "kafka_partition", "kafka_offset"]


@dataclass(slots=True)
class Replacing:
    """The rows that a replay replaces."""

    files: fs.FileSystem
    folder: str
    """The attempt's folder, for what is rewritten."""
    ranges: Sequence[Range]
    _known: dict[str, list[TableFile] | None] = field(default_factory=dict)
    """By path: the files that take the place of a file; None if it holds no row of the ranges."""

    def changes(self, table: DeltaTable) -> list[Change]:
        """Return what has to be removed from this version of the table, and added to it instead."""
        made: list[Change] = []
        for row in pa.table(table.get_add_actions(flatten=False)).to_pylist():
            if not self._may_hold(row):
                continue
            path = row["path"]
            partition = {name: partition_text(value) for name, value in (row.get("partition") or {}).items()}
            plain = plain_path(path)
            if path not in self._known:
                self._known[path] = self._instead(plain, partition)
            instead = self._known[path]
            if instead is not None:
                made.append(RemoveAction(plain, True, int(time.time() * 1000), row["size_bytes"], partition))
                made += [file.added() for file in instead]
        return made

    def _may_hold(self, row: Mapping[str, Any]) -> bool:
        """Return whether a file may hold rows of the ranges, by its statistics."""
        low, high = ((row.get(bound) or {}).get("kafka_offset") for bound in ("min", "max"))
        if low is None or high is None:
            return True
        return any(piece.offsets.start <= high and low < piece.offsets.end for piece in self.ranges)

    def _instead(self, path: str, partition: Mapping[str, str | None]) -> list[TableFile] | None:
        with self.files.open_input_file(path) as source:
            inside = self._inside(pq.ParquetFile(source, read_dictionary=["kafka_topic_id"]).read(_COORDINATES))
        if not pc.any(inside).as_py():
            return None
        to = f"{self.folder}/rest-{len(self._known)}.parquet"
        rest = rewritten(self.files, path, to, partition, lambda rows: pc.invert(self._inside(rows)))
        return [] if rest is None else [rest]

    def _inside(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return for each row whether it is of the ranges."""
        found = pa.chunked_array([pa.repeat(False, len(rows))])
        topics, partitions, offsets = (rows[name] for name in _COORDINATES)
        topics = topics.cast(pa.string())
        for piece in self.ranges:
            of_stream = pc.and_(pc.equal(topics, str(piece.topic_id)), pc.equal(partitions, piece.partition))
            of_range = pc.and_(pc.greater_equal(offsets, piece.offsets.start), pc.less(offsets, piece.offsets.end))
            found = pc.or_(found, pc.and_(of_stream, of_range))
        return found
