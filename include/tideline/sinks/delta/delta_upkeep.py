"""Keep a Delta table fast to read: merge small files, delete files that were replaced long ago, and files of dead attempts.

The laws: the rows of the table stay as they are, whatever load or replay runs beside it; and what an open attempt may still
commit stays. So a merge is committed exactly behind a version that has all of its files, or not at all. Only files that the
log names as removed, or that `delta_cleaning` has found dead, are deleted. A table with a feature that is not kept is left alone as a whole:
which files its readers need is not known here.

delta-rs has a compaction of its own. It is not used: of two that run at the same time it accepts both, and all rows are
there twice.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import RemoveAction
from pyarrow import fs
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from tideline.declaration.pipelines import Pipeline
from tideline.sinks.delta import delta_cleaning, delta_errors, delta_features, delta_files, delta_log, delta_table
from tideline.sinks.delta.delta_log import Change, RefusedTableError, TakenError, UnknownError, plain_path
from tideline.sinks.delta.delta_parquet import OpenFile, TableFile, partition_text
from tideline.sinks.delta.delta_table import DeltaOutput
from tideline.sinks.evidence import Evidence

FILE_BYTES = 128 << 20
"""Files below this size are merged, up to about this size."""
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 131_072, 64 << 20
_TRIES = 20


class ListedFile(NamedTuple):
    """A file of the table, as the log names it."""

    path: str
    size: int
    partition: tuple[tuple[str, str | None], ...]


def upkeep(pipeline: Pipeline, known: Evidence) -> list[str]:
    """Merge small files, and delete files that no reader and no open attempt needs. Return one line for each thing done.

    Raises:
        RetryableError: Storage did not answer.
        NeedsOperatorError: The table must exist and does not.
        FatalError: A variable of the environment is not set.
    """
    return of_table(delta_table.sink(pipeline, known))


def of_table(output: DeltaOutput) -> list[str]:
    """Do the upkeep of one table. If it has a feature that is not kept, return a line that says so."""
    uri = output.location.uri
    try:
        table = output.open()
        if table is not None and (unkept := delta_features.unkept(table)):
            return [_left_alone(output, RefusedTableError(delta_features.said(unkept), unkept))]
        n_old = delta_cleaning.remove_replaced(output)
        n_dead = delta_cleaning.remove_dead(output)
        merged = [merge(output, parts) for parts in small_files(output)]
    except RefusedTableError as error:
        return [_left_alone(output, error)]
    except (DeltaError, OSError) as error:
        raise output.location.unavailable(error) from error
    done = [f"{uri}: {n_dead} files of attempts that can no longer commit deleted"] if n_dead else []
    n_merged = [n_files for n_files in merged if n_files]
    done += [f"{uri}: {sum(n_merged)} small files merged into {len(n_merged)}"] if n_merged else []
    return done + ([f"{uri}: {n_old} files deleted that were replaced long ago"] if n_old else [])


def _left_alone(output: DeltaOutput, error: RefusedTableError) -> str:
    why = delta_errors.refused(output.location, "upkeep", error)
    return f"{why.problem}. Next: {why.next_step}. More: docs/runbook.md#{why.entry}"


def small_files(output: DeltaOutput) -> list[list[ListedFile]]:
    """Return which files to merge: at least two of one partition each time."""
    table = output.open()
    if table is None:
        return []
    made: list[list[ListedFile]] = []
    filling: dict[tuple[tuple[str, str | None], ...], list[ListedFile]] = {}
    for part in sorted(_parts(table)):
        if part.size >= FILE_BYTES:
            continue
        bin_ = filling.setdefault(part.partition, [])
        bin_.append(part)
        if sum(one.size for one in bin_) >= FILE_BYTES:
            made.append(filling.pop(part.partition))
    return [parts for parts in (*made, *filling.values()) if len(parts) > 1]


def merge(output: DeltaOutput, parts: Sequence[ListedFile]) -> int:
    """Merge files into one, in one commit. Return how many; 0 if one of them is not in the table any more.

    Raises:
        RefusedTableError: The table has a feature that is not kept. It is as it was.
    """
    table = output.open()
    if table is None or not {*parts} <= {*_parts(table)}:
        return 0
    files = delta_files.filesystem(output.location)
    made = _merged(files, table, parts)
    again = Retrying(
        retry=retry_if_exception_type((TakenError, UnknownError)), stop=stop_after_attempt(_TRIES), reraise=True
    )
    try:
        is_merged = again(_commit, output, parts, made)
    except (TakenError, UnknownError):
        return 0  # the commit may be in flight: the file is removed later, if it is in no version
    if is_merged:
        return len(parts)
    delta_files.remove(output.location, [made.path])
    return 0


def _commit(output: DeltaOutput, parts: Sequence[ListedFile], made: TableFile) -> bool:
    """Replace files by the one that has their rows. Return False if one of them is not in the table any more.

    Raises:
        RefusedTableError: As for `merge`.
        TakenError: Another commit was faster.
        UnknownError: Storage did not answer. If it was committed, the next call finds that.
    """
    table = output.open()
    there = {*_parts(table)} if table is not None else set()
    if made.path in {part.path for part in there}:
        return True
    if table is None or not {*parts} <= there:
        return False  # a replay or another merge has taken one of them
    now = int(time.time() * 1000)
    removed = [RemoveAction(plain_path(part.path), False, now, part.size, dict(part.partition)) for part in parts]
    changes: list[Change] = [made.added(changes_data=False), *removed]
    delta_log.commit(table, changes, transaction=None, metadata={"tideline_merged": str(len(parts))})
    return True


def _parts(table: DeltaTable) -> Iterator[ListedFile]:
    for row in pa.table(table.get_add_actions(flatten=False)).to_pylist():
        partition: Mapping[str, Any] = row.get("partition") or {}
        yield ListedFile(
            row["path"], row["size_bytes"], tuple((name, partition_text(value)) for name, value in partition.items())
        )


def _merged(files: fs.FileSystem, table: DeltaTable, parts: Sequence[ListedFile]) -> TableFile:
    """Write the rows of all files to a new one, in the columns that the table has now."""
    partition = dict(parts[0].partition)
    columns = pa.schema([field for field in pa.schema(table.schema()) if field.name not in partition])
    made = OpenFile(files, f"{delta_files.MERGED}/{uuid4().hex}.parquet", columns, partition)
    waiting: list[pa.Table] = []
    for part in parts:
        with files.open_input_file(plain_path(part.path)) as source:
            old = pq.ParquetFile(source)
            for number in range(old.num_row_groups):
                waiting.append(_conformed(old.read_row_group(number), columns))
                if sum(map(len, waiting)) >= _ROWS_AT_ONCE or sum(one.nbytes for one in waiting) >= _BYTES_AT_ONCE:
                    made.write(pa.concat_tables(waiting))
                    waiting.clear()
    if waiting:
        made.write(pa.concat_tables(waiting))
    return made.close()


def _conformed(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return rows of an older file with the columns of the table: those that it has not are null."""
    given = [
        rows.column(field.name).cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in columns
    ]
    return pa.table(given, schema=columns)
