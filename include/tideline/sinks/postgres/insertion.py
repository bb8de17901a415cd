"""Insert staged rows into the target table, within the ledger's publishing transaction. A replay first deletes the rows that it replaces.

This module never commits, and never touches a row outside of the batch's ranges. `refusals` finds the records
that the target refuses.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2.sql import SQL, Composable, Composed, Identifier

from tideline.domain.states import BatchKind
from tideline.errors import FatalError, RetryableError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import said
from tideline.ledger.publishing import Written
from tideline.sinks import staging_tables
from tideline.sinks.postgres import added_columns
from tideline.sinks.postgres.fitting import COORDINATES, STAGED_STREAM
from tideline.sinks.postgres.target_table import OF_A_ROW, Target, deletions_name, quoted, sink_sql
from tideline.sinks.sink import RowsRefusedError
from tideline.sinks.staging_tables import STAGING_SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """The rows that an attempt has staged, and the table that they are for."""

    target: Target
    attempt: Attempt
    table: str
    """The attempt's staging table."""
    tasks: Mapping[int, int]
    """The number of rows that each winning Spark task reports as staged, by task attempt id."""
    is_folded: bool = False
    """Whether a processor has made the rows, some of them of records of earlier batches."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the attempt's staging tables: of its rows, and of the keys that it deletes, if tombstones delete."""
        return (self.table, deletions_name(self.table)) if self.target.deletes else (self.table,)

    @property
    def names(self) -> dict[str, Composable]:
        """Return the values of the {placeholders} in the sink's statements."""
        columns = [column.name for column in self.target.columns]
        return {
            "on_conflict": Composed([]),
            "staging": Identifier(STAGING_SCHEMA, self.table),
            "target": self.target.identifier,
            "columns": SQL(", ").join(map(quoted, columns)),
            "staged_columns": SQL(", ").join(quoted("s", column) for column in columns),
        }

    @property
    def bound(self) -> dict[str, Any]:
        """Return the parameters of the sink's statements."""
        return {
            "batch_id": self.attempt.batch_id,
            "attempt_id": self.attempt.attempt_id,
            "tasks": list(self.tasks),
        }


def insert_output(ledger: Ledger, staged: StagedRows) -> Written:
    """Insert the staged rows of the winning tasks into the target, as part of the publishing transaction.

    If any row of a record was rejected, the whole record is a reject: none of its rows is inserted. A replay first
    deletes the rows that the target holds of its ranges. The rows of a re-drive belong to the batches that had rejected
    their records.

    Raises:
        RowsRefusedError: The target refuses rows.
        RetryableError: Staged rows are missing. Staging tables are unlogged, so a crash of the server empties them.
        FatalError: Two rows of one record differ only in their partition, or the target refuses the batch as a whole.
    """
    n_rows, n_written = make_room(ledger, staged)
    check_distinct(ledger, staged.target, staged.attempt, staged.names, staged.bound)
    try:
        n_inserted = move(ledger, staged, staged.names)
        check_now(ledger, staged.target.deferred)
    except psycopg2.Error as error:
        if error.pgcode is None or error.pgcode[:2] not in OF_A_ROW:
            raise as_a_whole(staged, error) from error
        raise RowsRefusedError(
            f"{staged.attempt}: {staged.target.name} refuses rows: {error.diag.message_primary}"
        ) from error
    if n_inserted != n_rows:
        raise RowsRefusedError(f"{staged.attempt}: of {n_rows} rows {staged.target.name} has taken {n_inserted}")
    try:
        check_now(ledger, staged.target.referring)
    except psycopg2.Error as error:
        raise as_a_whole(staged, error) from error
    return Written(n_written=n_written, offsets=offsets(ledger, staged))


def make_room(ledger: Ledger, staged: StagedRows) -> tuple[int, Counter[int]]:
    """Delete the rows of rejected records from staging and, for a replay, the rows to replace from the target. Add the columns that it lacks.

    Returns the number of rows that are left in staging, and of their records by stream id.

    Raises:
        RetryableError: Staged rows are missing, or the table was altered meanwhile.
        FatalError: The rows that a replay replaces cannot be deleted, or the columns not be added.
    """
    if staged.target.lacks:
        added_columns.add(ledger, staged.target, staged.attempt)
    n_discarded, n_rows, n_written = 0, 0, Counter[int]()
    for table in staged.tables:
        names = {**staged.names, "staging": Identifier(STAGING_SCHEMA, table)}
        n_discarded += staging_tables.discard_rejected(ledger, table, staged.bound)
        count = sink_sql("count_folded") if staged.is_folded else sink_sql("count_staged")
        for row in ledger.rows_of(count.format(**names), staged.bound):
            n_rows += row["n_rows"]
            n_written[row["stream_id"]] += row["n_written"]
    if n_discarded + n_rows != sum(staged.tasks.values()):
        raise RetryableError(
            f"{staged.attempt}: {sum(staged.tasks.values())} rows were staged, {n_discarded + n_rows} are there: "
            "did the server crash in between?",
            next_step="run the task again",
            entry="staged-rows-are-missing",
        )
    if staged.attempt.kind is BatchKind.REPLAY:
        try:
            ledger.run_sql(sink_sql("delete_replaced").format(**staged.names), staged.bound)
        except psycopg2.Error as error:
            raise as_a_whole(staged, error) from error
    return n_rows, n_written


def move(ledger: Ledger, staged: StagedRows, names: Mapping[str, Composable]) -> int:
    """Insert the staged rows of the batch's records into the table that `names` calls the target.

    Returns the number of inserted rows. Rows that belong to no record of the batch are left out.
    """
    if staged.is_folded:
        query = sink_sql("insert_folded")
    elif staged.attempt.kind is BatchKind.REDRIVE:
        query = sink_sql("insert_redriven")
    else:
        query = sink_sql("insert_staged")
    with ledger.without_nested_loops():
        return ledger.run_sql(query.format(**names), staged.bound)


def check_now(ledger: Ledger, constraints: Sequence[tuple[str, str]]) -> None:
    """Check constraints now that Postgres would check only at COMMIT, when it is no longer possible to find the row at fault."""
    if constraints:
        names = SQL(", ").join(quoted(*name) for name in constraints)
        ledger.run_sql(sink_sql("check_now").format(constraints=names), {})


def as_a_whole(staged: StagedRows, error: psycopg2.Error) -> FatalError:
    """Return an error that is not the fault of a single row as a `FatalError`.

    Raises:
        psycopg2.Error: The same error, if it may be temporary. The ledger then turns it into the right error.
    """
    if isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError) or (error.pgcode or "").startswith("25"):
        raise error
    return FatalError(
        f"{staged.attempt}: {staged.target.name} refuses the output as a whole: {said(error)}",
        next_step="give the writer's role what it lacks, or undo what was done to the table; nothing was published",
        entry="table-refuses-rows",
    )


def offsets(ledger: Ledger, staged: StagedRows) -> list[tuple[int, int]]:
    """Return stream id and offset of each record that a re-drive has written; nothing for another batch."""
    if staged.attempt.kind is not BatchKind.REDRIVE:
        return []
    return [record for table in staged.tables for record in staging_tables.written(ledger, table, staged.bound)]


def check_distinct(
    ledger: Ledger, target: Target, attempt: Attempt, names: Mapping[str, Composable], bound: Mapping[str, Any]
) -> None:
    """Refuse two staged rows of one record that the table's key would accept, because they lie in different partitions.

    Raises:
        FatalError: There are such rows.
    """
    if not target.partitioned_by:
        return
    columns = (STAGED_STREAM, COORDINATES[2], *([target.item] if target.item else []))
    query = sink_sql("list_doubled").format(**names, key=SQL(", ").join(map(quoted, columns)))
    if rows := ledger.rows_of(query, bound):
        raise FatalError(
            f"{attempt}: {target.schema}.{target.table} refuses the output: the transform gives several rows for the record at offset "
            f"{rows[0]['kafka_offset']} of stream {rows[0]['tideline_stream']}, and only their partition distinguishes them",
            next_step="declare sink.item with a column that distinguishes the rows of one record, or let transform.py give one row for each record",
            entry="table-refuses-rows",
        )
