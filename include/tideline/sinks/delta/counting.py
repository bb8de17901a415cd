"""Count the records of an attempt's files, and take out the rows of rejected ones. Runs in the driver.

The law: a record is written with all of its rows, or rejected with all of them. A `frame` may spread the rows of a record
over tasks, so only the driver sees all of them. It reads nothing but the coordinates and the item.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from psycopg2.sql import SQL
from pyarrow import fs

from tideline.domain.states import BatchKind
from tideline.errors import FatalError, RetryableError
from tideline.ledger.attempts import Attempt, Range
from tideline.ledger.connection import Ledger
from tideline.sinks.delta.delta_parquet import TableFile, rewritten
from tideline.sinks.delta.listed_rows import Listed, Sliced
from tideline.sinks.delta.marked_offsets import Marked
from tideline.sinks.sink import Publication, StagedCommit
from tideline.statements import statement

_SEVERAL = "the transform makes several rows of this record that are not told apart"


@dataclass(frozen=True, slots=True)
class Counted:
    """The files of an attempt without rows of rejected records, and what they hold."""

    files: Sequence[TableFile]
    staged: StagedCommit


def count(publication: Publication, files: fs.FileSystem, found: Sequence[TableFile], item: str | None) -> Counted:
    """Return the files to commit, and how many records of each stream they hold. Records with rows that are not told apart become rejects.

    Raises:
        RetryableError: Fewer rows are there than the tasks have reported, or a record could not be read once more.
        FatalError: A row does not belong to the batch.
    """
    attempt = publication.attempt
    n_reported = sum(winner.n_rows for winner in publication.winners)
    seen: Marked | Listed | Sliced
    if attempt.kind is BatchKind.REDRIVE:
        seen = Listed(attempt, item)
    elif item is None:
        seen = Marked(attempt.ranges)
    else:
        seen = Sliced(attempt, item, n_reported, lambda number: _rows_of(files, found[number], attempt, item))
    for file in found:
        rows = _rows_of(files, file, attempt, item)
        if (strange := seen.add(rows)) is not None:
            raise _not_read(attempt, *strange)
    if seen.n_rows != n_reported:
        raise RetryableError(
            f"{attempt}: expected {n_reported} staged rows, found {seen.n_rows}",
            next_step="run the task again",
            entry="staged-rows-are-missing",
        )
    if doubled := seen.doubled(f"{_SEVERAL}: {f'by sink.item {item}' if item else 'declare sink.item'}"):
        n_rejected = publication.reject(doubled)
        if n_rejected != len(doubled):
            raise RetryableError(
                f"{attempt}: {len(doubled)} records were refused, {n_rejected} of them could be read once more",
                next_step="run the task again",
            )
    rejected = _rejected(publication.ledger, attempt)
    n_rows, written = seen.written_without(rejected)
    if n_rows < seen.n_rows:
        found = _without(files, found, attempt, rejected)
    return Counted(found, StagedCommit(written, n_rows))


def _rows_of(files: fs.FileSystem, file: TableFile, attempt: Attempt, item: str | None) -> pa.Table:
    """Return stream, offset and item of each row of a file."""
    part = _read(files, file.path, ["kafka_topic_id", "kafka_partition", "kafka_offset", *([item] if item else [])])
    columns = {"stream": of_streams(part, stream_numbers(attempt.ranges)), "offset": part["kafka_offset"]}
    return pa.table(columns | ({"item": part[item]} if item else {}))


def _read(files: fs.FileSystem, path: str, columns: list[str]) -> pa.Table:
    with files.open_input_file(path) as source:
        return pq.ParquetFile(source, read_dictionary=["kafka_topic_id"]).read(columns)


def stream_numbers(ranges: Sequence[Range]) -> Mapping[tuple[str, int], int]:
    """Return stream ids by topic id and partition."""
    return {(str(piece.topic_id), piece.partition): piece.stream_id for piece in ranges}


def of_streams(rows: pa.Table, streams: Mapping[tuple[str, int], int]) -> pa.ChunkedArray:
    """Return the stream id of each row by its coordinates; null for streams that are not given."""
    names = pc.binary_join_element_wise(
        rows["kafka_topic_id"].cast(pa.string()), rows["kafka_partition"].cast(pa.string()), "/"
    )
    known = pa.array([f"{topic}/{partition}" for topic, partition in streams], pa.string())
    places = pc.index_in(names, value_set=known)
    return pa.chunked_array(
        [pa.array(list(streams.values()), pa.int64()).take(chunk) for chunk in places.chunks], pa.int64()
    )


def _not_read(attempt: Attempt, stream: int, low: int, high: int) -> FatalError:
    """Return the error for rows of offsets that the batch does not have: no batch would account for them."""
    return FatalError(
        f"{attempt}: the transform returned rows of stream {stream} from offset {low} to {high}, which the batch does not read",
        next_step="let transform.py return the column `kafka` unchanged",
        entry="transform",
    )


def _rejected(ledger: Ledger, attempt: Attempt) -> pa.Table:
    with ledger.transaction():
        rows = ledger.rows_of(
            SQL(statement("tideline.sinks.delta", "list_rejected")), {"attempt_id": attempt.attempt_id}
        )
    return pa.table(
        {
            "stream": pa.array([row["stream_id"] for row in rows], pa.int64()),
            "offset": pa.array([row["kafka_offset"] for row in rows], pa.int64()),
        }
    )


def _without(
    files: fs.FileSystem, found: Sequence[TableFile], attempt: Attempt, rejected: pa.Table
) -> Sequence[TableFile]:
    """Return the files without the rows of rejected records. A file that has such rows is written once more."""
    streams = stream_numbers(attempt.ranges)
    gone = pc.binary_join_element_wise(rejected["stream"].cast(pa.string()), rejected["offset"].cast(pa.string()), "/")

    def keep(rows: pa.Table) -> pa.Array:
        records = pc.binary_join_element_wise(
            of_streams(rows, streams).cast(pa.string()), rows["kafka_offset"].cast(pa.string()), "/"
        )
        return pc.invert(pc.is_in(records, value_set=gone.combine_chunks()))

    kept: list[TableFile] = []
    for file in found:
        coordinates = _read(files, file.path, ["kafka_topic_id", "kafka_partition", "kafka_offset"])
        if pc.all(keep(coordinates)).as_py():
            kept.append(file)
            continue
        made = rewritten(files, file.path, file.path.replace(".parquet", "-kept.parquet"), file.partition, keep)
        if made is not None:
            kept.append(replace(made, partition=file.partition))
    return kept
