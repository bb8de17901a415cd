"""Replace the rows of a replay's ranges: remove the files that hold some, and keep their other rows in new files. Runs in the driver.

The law: after the commit, the table has of these ranges the rows of the replay and no others of its pipeline, and all rows of other ranges and of
other pipelines. A table may be shared, so coordinates alone do not say whose a row is: its batch does. Files are chosen
anew for each version of the table on which the commit is tried. What was rewritten before is used again.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import RemoveAction
from psycopg2.sql import SQL
from pyarrow import fs

from tideline.errors import FatalError
from tideline.ledger.attempts import Attempt, Range
from tideline.ledger.connection import Ledger
from tideline.sinks.delta.delta_log import Change, plain_path
from tideline.sinks.delta.delta_parquet import TableFile, partition_text, rewritten
from tideline.statements import statement

_COORDINATES = ["kafka_topic_id", "kafka_partition", "kafka_offset", "tideline_batch"]


@dataclass(slots=True)
class Replacing:
    """The rows that a replay replaces."""

    files: fs.FileSystem
    folder: str
    """The attempt's folder, for what is rewritten."""
    ranges: Sequence[Range]
    ours: frozenset[int]
    """The batches of the pipeline that may have rows of the ranges. Only such rows are replaced."""
    of_others: Callable[[Collection[int]], frozenset[int]]
    """Returns those of these batches that the ledger knows as batches of other pipelines."""
    _theirs: set[int] = field(default_factory=set)
    _known: dict[str, list[TableFile] | None] = field(default_factory=dict)
    """By path: the files that take the place of a file; None if it holds no row of the ranges."""

    def changes(self, table: DeltaTable) -> list[Change]:
        """Return what has to be removed from this version of the table, and added to it instead.

        Raises:
            FatalError: A row of the ranges is of a batch that the ledger does not know. It may be there twice afterwards, or be lost.
        """
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
        """Return whether a file may hold rows of the ranges that are not known to be another pipeline's, by its statistics."""
        low, high = _bounds(row, "kafka_offset")
        known = low is not None and high is not None
        if known and not any(piece.offsets.start <= high and low < piece.offsets.end for piece in self.ranges):
            return False
        first, last = _bounds(row, "tideline_batch")
        return first is None or first != last or first in self.ours or bool(self._unknown({first}))

    def _instead(self, path: str, partition: Mapping[str, str | None]) -> list[TableFile] | None:
        with self.files.open_input_file(path) as source:
            rows = pq.ParquetFile(source, read_dictionary=["kafka_topic_id"]).read(_COORDINATES)
        self._check(path, set(rows["tideline_batch"].filter(self._inside(rows)).unique().to_pylist()))
        if not pc.any(self._replaced(rows)).as_py():
            return None
        to = f"{self.folder}/rest-{len(self._known)}.parquet"
        rest = rewritten(self.files, path, to, partition, lambda rows: pc.invert(self._replaced(rows)))
        return [] if rest is None else [rest]

    def _check(self, path: str, batches: set[int]) -> None:
        if strange := self._unknown(batches - self.ours):
            numbers = ", ".join(map(str, sorted(strange)))
            raise FatalError(
                f"the file {path} holds rows of the offsets to replace, of batches that this ledger has not loaded them with: {numbers}",
                next_step="find out which ledger or program has written them; delete these rows, or leave the offsets as they are",
                entry="rows-of-another-writer",
            )

    def _unknown(self, batches: set[int]) -> set[int]:
        """Return those of these batches that are not known to be another pipeline's."""
        if asked := batches - self._theirs:
            self._theirs |= self.of_others(asked)
        return batches - self._theirs

    def _replaced(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return for each row whether it is of the ranges, and of a batch of the pipeline."""
        ours = pa.array(sorted(self.ours), pa.int64())
        return pc.and_(self._inside(rows), pc.is_in(rows["tideline_batch"], value_set=ours))

    def _inside(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return for each row whether it is of the ranges."""
        found = pa.chunked_array([pa.repeat(False, len(rows))])
        topics, partitions, offsets = (rows[name] for name in _COORDINATES[:3])
        topics = topics.cast(pa.string())
        for piece in self.ranges:
            of_stream = pc.and_(pc.equal(topics, str(piece.topic_id)), pc.equal(partitions, piece.partition))
            of_range = pc.and_(pc.greater_equal(offsets, piece.offsets.start), pc.less(offsets, piece.offsets.end))
            found = pc.or_(found, pc.and_(of_stream, of_range))
        return found


def of_replay(ledger: Ledger, attempt: Attempt, files: fs.FileSystem, folder: str) -> Replacing:
    """Return what an attempt at a replay replaces; the ledger says whose rows are whose.

    Raises:
        RetryableError: The ledger did not answer.
    """

    def batches(name: str, **asked: object) -> frozenset[int]:
        with ledger.transaction():
            rows = ledger.rows_of(SQL(statement("tideline.sinks.delta", name)), {"batch_id": attempt.batch_id, **asked})
        return frozenset(row["batch_id"] for row in rows)

    return Replacing(
        files,
        folder,
        attempt.ranges,
        ours=batches("list_loading_batches"),
        of_others=lambda asked: batches("list_batches_of_others", batch_ids=sorted(asked)),
    )


def _bounds(row: Mapping[str, Any], column: str) -> tuple[Any, Any]:
    """Return the lowest and the highest value of a column in a file, by its statistics; None where they do not say."""
    low, high = ((row.get(bound) or {}).get(column) for bound in ("min", "max"))
    return low, high
