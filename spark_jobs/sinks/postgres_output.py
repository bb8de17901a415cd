"""Staged rows become output, within the ledger's publishing transaction: put beside what is there, or, for a replay, in the place of what is there.

Never commits, and never looks at a row that lies outside of the batch's ranges.
"""

from collections.abc import Mapping
from typing import Any

import psycopg2.errors
from psycopg2.sql import SQL, Composable, Identifier

from spark_jobs.sinks.postgres import STAGING_SCHEMA, Target, quoted, sink_sql
from tideline.domain.states import BatchKind
from tideline.errors import FatalError, RetryableError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written


def insert_output(ledger: Ledger, target: Target, attempt: Attempt, staging: str, tasks: Mapping[int, int]) -> Written:
    """Insert the staged rows of the winning tasks into the target; part of the publishing transaction.

    A record of which any row was rejected is wholly a reject: none of its rows is inserted. A replay first deletes what the target holds of its
    ranges. The rows of a re-drive belong to the batches that had rejected their records.

    Args:
        ledger: A session within the publishing transaction.
        target: Where the rows go.
        attempt: Whose rows they are.
        staging: The attempt's staging table.
        tasks: Rows that each winning Spark task says it staged, by task attempt id.

    Returns:
        What was written.

    Raises:
        TooLongError: A value is too long for an index of the target.
        RetryableError: Rows are missing in staging: it is not logged, and a crash of the server empties it. Or rejects that were re-driven are
            gone: a replay has read their records again.
        FatalError: The transform gave two rows of one record the same key, or rows of records that are not in the batch.
    """
    names = {
        "staging": Identifier(STAGING_SCHEMA, staging),
        "target": target.identifier,
        "columns": SQL(", ").join(quoted(column.name) for column in target.columns),
        "staged_columns": SQL(", ").join(quoted("s", column.name) for column in target.columns),
    }
    bound = {"batch_id": attempt.batch_id, "attempt_id": attempt.attempt_id, "tasks": list(tasks)}
    with ledger.without_nested_loops():
        n_discarded = ledger.run_sql(sink_sql("discard_rejected").format(**names), bound)
    counted = ledger.rows_of(sink_sql("count_staged").format(**names), bound)
    n_rows = sum(row["n_rows"] for row in counted)
    if n_discarded + n_rows != sum(tasks.values()):
        raise RetryableError(
            f"{attempt}: {sum(tasks.values())} rows were staged, {n_discarded + n_rows} are there: did the server crash in between?",
            next_step="run the task again",
            entry="staged-rows-are-missing",
        )
    n_inserted = _move(ledger, target, attempt, names, bound)
    if n_inserted != n_rows:
        raise _left_behind(ledger, attempt, names, bound)
    redriven = attempt.kind is BatchKind.REDRIVE
    return Written(
        n_written={row["stream_id"]: row["n_written"] for row in counted},
        offsets=_offsets(ledger, names, bound) if redriven else (),
    )


class TooLongError(FatalError):
    """A value is too long for an index of the target. Which one it is Postgres does not say."""


def _move(
    ledger: Ledger, target: Target, attempt: Attempt, names: Mapping[str, Composable], bound: Mapping[str, Any]
) -> int:
    """Rows inserted; those that belong to no record of the batch stay behind."""
    redriven = attempt.kind is BatchKind.REDRIVE
    insert = sink_sql("insert_redriven") if redriven else sink_sql("insert_staged")
    try:
        if attempt.kind is BatchKind.REPLAY:
            ledger.run_sql(sink_sql("delete_replaced").format(**names), bound)
        with ledger.without_nested_loops():
            return ledger.run_sql(insert.format(**names), bound)
    except psycopg2.errors.IntegrityError as error:
        raise _refused(attempt, target, error) from error
    except psycopg2.errors.ProgramLimitExceeded as error:
        raise TooLongError(
            f"{attempt}: {target.schema}.{target.table} refuses the output: {error.diag.message_primary}",
            next_step="index a hash of the column in its place, or let transform.py leave out what is so long",
            entry="table-refuses-rows",
        ) from error


def _left_behind(
    ledger: Ledger, attempt: Attempt, names: Mapping[str, Composable], bound: Mapping[str, Any]
) -> FatalError | RetryableError:
    """Why staged rows found no record to belong to."""
    if attempt.kind is BatchKind.REDRIVE and not ledger.rows_of(sink_sql("list_strangers").format(**names), bound):
        return RetryableError(
            f"{attempt}: rejects that were decoded again are gone: a replay has read their records in the meantime",
            next_step="run the task again: it takes what is left",
        )
    return FatalError(
        f"{attempt}: the transform returned rows whose `kafka` is not a record of the batch",
        next_step="let transform.py give the column `kafka` on as it came",
        entry="transform",
    )


def _offsets(ledger: Ledger, names: Mapping[str, Composable], bound: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Stream id and offset of each record that was written."""
    rows = ledger.rows_of(sink_sql("list_written").format(**names), bound)
    return [(row["stream_id"], offset) for row in rows for offset in row["offsets"]]


def _refused(attempt: Attempt, target: Target, error: psycopg2.errors.IntegrityError) -> FatalError:
    """What the staging table cannot check, because it needs more than one row: keys and foreign keys."""
    found = f"{attempt}: {target.schema}.{target.table} refuses the output: {error.diag.message_primary}; {error.diag.message_detail}"
    if isinstance(error, psycopg2.errors.UniqueViolation):
        return FatalError(
            found,
            next_step="declare sink.item with a column that tells the rows of one record apart, or find out who else writes to this table",
            entry="table-refuses-rows",
        )
    return FatalError(
        found,
        next_step="drop the constraint, or let transform.py leave out the rows that break it",
        entry="table-refuses-rows",
    )
