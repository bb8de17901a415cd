"""Which records of a batch the target refuses, and why: they are tried on the target itself, in a transaction that is rolled back.

Only the target can say: its keys, foreign keys, triggers, generated columns, expression indexes and partitions need its other rows and columns,
which staging does not have. A record is loaded with all of its rows or not at all. Records are tried in the order of partition and offset: of two
that exclude each other the first one is taken, in each try the same.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import psycopg2
from psycopg2.sql import SQL, Composable, Identifier, Literal

from spark_jobs.records.reject_reasons import one_line
from spark_jobs.sinks.postgres import COORDINATES, OF_A_ROW, STAGING_SCHEMA, quoted, sink_sql
from spark_jobs.sinks.postgres_output import Staged, as_a_whole, check_now, make_room, move
from tideline.errors import FatalError, RetryableError
from tideline.ledger.connection import Ledger

_DANGLING = "23503"
"""A row that refers to no other row; to one of a later record, perhaps."""


class Refused(NamedTuple):
    """One record of which the target refuses a row."""

    stream_id: int
    offset: int
    reason: str


class FoundError(Exception):
    """The records that the target refuses. An error, so that the transaction in which they were tried is rolled back."""

    def __init__(self, records: list[Refused]) -> None:
        super().__init__(f"{len(records)} records are refused")
        self.records = records


def find(ledger: Ledger, staged: Staged) -> NoReturn:
    """Try the staged records one after the other. In place of `postgres_output.insert_output`, in a publishing transaction.

    Raises:
        FoundError: Always, where no other error stands in the way.
        FatalError: The target holds a row that another writer has put in the place of one of the batch's, or the transform gave rows of records
            that are not in the batch.
        RetryableError: No record is refused any more, or staged rows are gone.
    """
    n_rows = sum(row["n_rows"] for row in make_room(ledger, staged))
    try:
        refused = _found(ledger, staged, _names(staged), n_rows)
    except psycopg2.Error as error:
        raise as_a_whole(staged, error) from error
    if not refused:
        raise RetryableError(
            f"{staged.attempt}: {staged.target.name} refused rows, and refuses none of them when they are tried one by one",
            next_step="run the task again",
            entry="table-refuses-rows",
        )
    raise FoundError(refused)


def _found(ledger: Ledger, staged: Staged, names: Mapping[str, Composable], n_rows: int) -> list[Refused]:
    ledger.run_sql(sink_sql("create_trial").format(**names), {})
    if move(ledger, staged, {**names, "target": names["trial"]}) != n_rows:
        raise _left_behind(staged)
    if occupied := ledger.rows_of(sink_sql("find_occupied").format(**names), staged.bound):
        raise _occupied(staged, occupied[0])
    check_now(ledger, staged.target.deferred)
    with ledger.without_nested_loops():
        ledger.run_sql(sink_sql("insert_apart").format(**names), {})
    return _tried(ledger, staged, names)


def _names(staged: Staged) -> dict[str, Composable]:
    key = [name for name in (*COORDINATES[:3], staged.target.item) if name]
    return {
        **staged.names,
        "trial": Identifier(STAGING_SCHEMA, f"{staged.table}_trial"),
        "records": Identifier(STAGING_SCHEMA, f"{staged.table}_records"),
        "key": SQL(", ").join(map(quoted, key)),
        "target_key": SQL(", ").join(quoted("t", name) for name in key),
        "of_a_row": SQL(" OR ").join(SQL("SQLSTATE {}").format(Literal(f"{code}000")) for code in OF_A_ROW),
    }


def _tried(ledger: Ledger, staged: Staged, names: Mapping[str, Composable]) -> list[Refused]:
    """The records that are refused. Where rows may refer to others of the table, until none of those that were refused for that is taken."""
    refused: list[Refused] = []
    n_dangling = None
    while True:
        ledger.run_sql(sink_sql("number_records").format(**names), {})
        ledger.run_sql(sink_sql("try_records").format(**names), {})
        with ledger.without_nested_loops():
            rows = ledger.rows_of(sink_sql("list_refused").format(**names), staged.bound)
        dangling = [row for row in rows if row["state"] == _DANGLING]
        if not staged.target.refers_to_itself or len(dangling) in {0, n_dangling}:
            return refused + _refused(rows)
        refused += _refused([row for row in rows if row["state"] != _DANGLING])
        n_dangling = len(dangling)
        ledger.run_sql(sink_sql("keep_dangling").format(**names), {"state": _DANGLING})


def _refused(rows: list[Any]) -> list[Refused]:
    return [Refused(row["stream_id"], row["kafka_offset"], one_line(row["reason"])) for row in rows]


def _left_behind(staged: Staged) -> FatalError:
    """Staged rows found no record to belong to. Of a re-drive, publishing has compared the rejects before."""
    return FatalError(
        f"{staged.attempt}: the transform returned rows whose `kafka` is not a record of the batch",
        next_step="let transform.py give the column `kafka` on as it came",
        entry="transform",
    )


def _occupied(staged: Staged, row: Any) -> FatalError:
    whose = f"of pipeline {row['pipeline']}" if row["pipeline"] else "which the ledger does not know"
    return FatalError(
        f"{staged.attempt}: {staged.target.name} already holds a row of partition {row['kafka_partition']} offset "
        f"{row['kafka_offset']}, of batch {row['tideline_batch']}, {whose}: another writer has put it there",
        next_step="let pipelines that share a table load different records; if the ledger was restored, see docs/restoring.md; else find out who "
        "else writes to this table",
        entry="table-refuses-rows",
    )
