"""Find the records of a batch that the target refuses, and why: insert them into the target itself, in a transaction that is rolled back.

Only the target can decide. Its keys, foreign keys, triggers, generated columns, expression indexes and partitions need
its other rows and columns, which staging does not have. A record is loaded with all of its rows or not at all. Records
are tried in the order of partition and offset. Of two records that exclude each other the first one is accepted, so the
result is the same in each try.
"""

from collections.abc import Mapping
from typing import Any

import psycopg2
from psycopg2.sql import SQL, Composable, Identifier, Literal

from tideline.domain.reject_reasons import one_line
from tideline.errors import FatalError, RetryableError
from tideline.ledger.connection import Ledger
from tideline.sinks.postgres import refused_upserts, upserting
from tideline.sinks.postgres.fitting import COORDINATES
from tideline.sinks.postgres.insertion import StagedRows, as_a_whole, check_now, make_room, move
from tideline.sinks.postgres.target_table import OF_A_ROW, quoted, sink_sql
from tideline.sinks.sink import Refused
from tideline.sinks.staging_tables import STAGING_SCHEMA

_DANGLING = "23503"
"""SQLSTATE of a row whose foreign key refers to no row; perhaps to a row of a later record."""


def find(ledger: Ledger, staged: StagedRows) -> list[Refused]:
    """Return the staged records that the target refuses. Runs instead of `insertion.insert_output`; the caller rolls back what it changes.

    Raises:
        FatalError: The target holds a row of another writer with the coordinates of a row of the batch, or the
            transform returned rows of records that are not in the batch.
        RetryableError: No record is refused any more, or staged rows are missing.
    """
    try:
        if staged.target.upsert:
            refused = refused_upserts.find(
                ledger, staged, _trial(staged), lambda names: _refused_in_order(ledger, staged, names)
            )
        else:
            n_rows, _ = make_room(ledger, staged)
            refused = _found(ledger, staged, _names(staged), n_rows)
    except psycopg2.Error as error:
        raise as_a_whole(staged, error) from error
    if not refused:
        raise RetryableError(
            f"{staged.attempt}: {staged.target.name} refused rows, and refuses none of them when they are tried one by one",
            next_step="run the task again",
            entry="table-refuses-rows",
        )
    return refused


def _found(ledger: Ledger, staged: StagedRows, names: Mapping[str, Composable], n_rows: int) -> list[Refused]:
    ledger.run_sql(sink_sql("create_trial").format(**names), {})
    if move(ledger, staged, {**names, "target": names["trial"]}) != n_rows:
        raise _without_record(staged)
    if occupied := ledger.rows_of(sink_sql("find_occupied").format(**names), staged.bound):
        raise upserting.occupied(staged, occupied[0])
    check_now(ledger, staged.target.deferred)
    with ledger.without_nested_loops():
        ledger.run_sql(sink_sql("insert_apart").format(**names), {})
    return _refused_in_order(ledger, staged, names)


def _names(staged: StagedRows) -> dict[str, Composable]:
    key = [name for name in (*COORDINATES[:3], staged.target.item) if name]
    return {
        **staged.names,
        **_trial(staged),
        "key": SQL(", ").join(map(quoted, key)),
        "target_key": SQL(", ").join(quoted("t", name) for name in key),
    }


def _trial(staged: StagedRows) -> dict[str, Composable]:
    # One statement cannot update a row twice, so several records of a key that are tried together are tried alone then.
    codes = (*OF_A_ROW, "21") if staged.target.upsert else OF_A_ROW
    return {
        "trial": Identifier(STAGING_SCHEMA, f"{staged.table}_trial"),
        "records": Identifier(STAGING_SCHEMA, f"{staged.table}_records"),
        "of_a_row": SQL(" OR ").join(SQL("SQLSTATE {}").format(Literal(f"{code}000")) for code in codes),
    }


def _refused_in_order(ledger: Ledger, staged: StagedRows, names: Mapping[str, Composable]) -> list[Refused]:
    """Return the records that the target refuses.

    Rows may refer to other rows of the same table. Then records whose foreign key found no row are tried again, until
    no further one is accepted.
    """
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


def _without_record(staged: StagedRows) -> FatalError:
    """Return the error for staged rows that belong to no record of the batch. In a re-drive, publishing has compared the rejects before."""
    return FatalError(
        f"{staged.attempt}: the transform returned rows whose `kafka` is not a record of the batch",
        next_step="let transform.py return the column `kafka` unchanged",
        entry="transform",
    )
