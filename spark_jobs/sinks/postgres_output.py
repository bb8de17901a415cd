"""Staged rows become output, within the ledger's publishing transaction: put beside what is there, or, for a replay, in the place of what is there.

Never commits, and never looks at a row that lies outside of the batch's ranges. Which records the target refuses: `postgres_refusals`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2.sql import SQL, Composable, Identifier

from spark_jobs.sinks.postgres import OF_A_ROW, STAGING_SCHEMA, Target, quoted, sink_sql
from spark_jobs.sinks.postgres_keys import check_distinct
from tideline.domain.states import BatchKind
from tideline.errors import FatalError, RetryableError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What an attempt has staged, and where it goes."""

    target: Target
    attempt: Attempt
    table: str
    """The attempt's staging table."""
    tasks: Mapping[int, int]
    """Rows that each winning Spark task says it staged, by task attempt id."""

    @property
    def names(self) -> dict[str, Composable]:
        """What stands in the place of the names in the sink's statements."""
        columns = [column.name for column in self.target.columns]
        return {
            "staging": Identifier(STAGING_SCHEMA, self.table),
            "target": self.target.identifier,
            "columns": SQL(", ").join(map(quoted, columns)),
            "staged_columns": SQL(", ").join(quoted("s", column) for column in columns),
        }

    @property
    def bound(self) -> dict[str, Any]:
        """The parameters of the sink's statements."""
        return {
            "batch_id": self.attempt.batch_id,
            "attempt_id": self.attempt.attempt_id,
            "tasks": list(self.tasks),
        }


class RowsRefusedError(Exception):
    """The target refuses rows. Which ones Postgres does not say: `postgres_refusals.find` does. No person sees it."""


def insert_output(ledger: Ledger, staged: Staged) -> Written:
    """Insert the staged rows of the winning tasks into the target; part of the publishing transaction.

    A record of which any row was rejected is wholly a reject: none of its rows is inserted. A replay first deletes what the target holds of its
    ranges. The rows of a re-drive belong to the batches that had rejected their records.

    Raises:
        RowsRefusedError: The target refuses rows.
        RetryableError: Rows are missing in staging: it is not logged, and a crash of the server empties it.
        FatalError: The transform gave rows of records that are not in the batch, or the target refuses the batch as a whole.
    """
    counted = make_room(ledger, staged)
    n_rows = sum(row["n_rows"] for row in counted)
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
    redriven = staged.attempt.kind is BatchKind.REDRIVE
    return Written(
        n_written={row["stream_id"]: row["n_written"] for row in counted},
        offsets=_offsets(ledger, staged) if redriven else (),
    )


def make_room(ledger: Ledger, staged: Staged) -> list[Any]:
    """Take away the rows that do not count, from staging and, for a replay, from the target. What is left in staging, per stream.

    Raises:
        RetryableError: Rows are missing in staging.
        FatalError: Nothing but their partition tells two rows apart, or what a replay would replace cannot be deleted.
    """
    with ledger.without_nested_loops():
        n_discarded = ledger.run_sql(sink_sql("discard_rejected").format(**staged.names), staged.bound)
    counted = ledger.rows_of(sink_sql("count_staged").format(**staged.names), staged.bound)
    n_rows = sum(row["n_rows"] for row in counted)
    if n_discarded + n_rows != sum(staged.tasks.values()):
        raise RetryableError(
            f"{staged.attempt}: {sum(staged.tasks.values())} rows were staged, {n_discarded + n_rows} are there: "
            "did the server crash in between?",
            next_step="run the task again",
            entry="staged-rows-are-missing",
        )
    check_distinct(ledger, staged.target, staged.attempt, staged.names, staged.bound)
    if staged.attempt.kind is BatchKind.REPLAY:
        try:
            ledger.run_sql(sink_sql("delete_replaced").format(**staged.names), staged.bound)
        except psycopg2.Error as error:
            raise as_a_whole(staged, error) from error
    return counted


def move(ledger: Ledger, staged: Staged, names: Mapping[str, Composable]) -> int:
    """Insert the staged rows into the table that `names` calls the target. How many; those that belong to no record of the batch stay behind."""
    redriven = staged.attempt.kind is BatchKind.REDRIVE
    query = sink_sql("insert_redriven") if redriven else sink_sql("insert_staged")
    with ledger.without_nested_loops():
        return ledger.run_sql(query.format(**names), staged.bound)


def check_now(ledger: Ledger, constraints: Sequence[tuple[str, str]]) -> None:
    """Check what Postgres would only check at COMMIT, where nobody could tell any more which row is at fault."""
    if constraints:
        names = SQL(", ").join(quoted(*name) for name in constraints)
        ledger.run_sql(sink_sql("check_now").format(constraints=names), {})


def as_a_whole(staged: Staged, error: psycopg2.Error) -> FatalError:
    """An error that no row is to blame for.

    Raises:
        psycopg2.Error: The same, where the server may get over it by itself: what the ledger makes of it is right.
    """
    if isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError) or (error.pgcode or "").startswith("25"):
        raise error
    detail = f"; {error.diag.message_detail}" if error.diag.message_detail else ""
    return FatalError(
        f"{staged.attempt}: {staged.target.name} refuses the output as a whole: {error.diag.message_primary}{detail}",
        next_step="give the writer's role what it lacks, or undo what was done to the table; nothing was published",
        entry="table-refuses-rows",
    )


def _offsets(ledger: Ledger, staged: Staged) -> list[tuple[int, int]]:
    """Stream id and offset of each record that was written."""
    rows = ledger.rows_of(sink_sql("list_written").format(**staged.names), staged.bound)
    return [(row["stream_id"], offset) for row in rows for offset in row["offsets"]]
