"""Write the staged records of an upsert pipeline, within the ledger's publishing transaction.

The law: the table holds the newest record of each key, in whatever order batches are published, and a key whose newest
record is a deletion has no row. Newer is the record with the larger columns of `sink.order`, then of the later
incarnation of its topic, then with the larger offset. A deletion leaves a mark in `<table>__deleted`: without it an
older record that is loaded later would bring the row back. A tombstone does not say its order. Directly behind a
deletion of its key that does, it has the same one; else its offset decides. Two transactions that do not see each other could both keep
what they should lose, so they take turns on the marks.
"""

from collections import Counter
from collections.abc import Sequence

import psycopg2
from psycopg2.extras import DictRow
from psycopg2.sql import SQL, Composable, Identifier

from tideline.domain.states import BatchKind
from tideline.errors import FatalError
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written
from tideline.sinks.postgres import fitting
from tideline.sinks.postgres.fitting import Upsert
from tideline.sinks.postgres.insertion import (
    StagedRows,
    as_a_whole,
    check_now,
    make_room,
    offsets,
)
from tideline.sinks.postgres.target_table import OF_A_ROW, Target, columns_of, deletions_name, quoted, sink_sql
from tideline.sinks.sink import RowsRefusedError
from tideline.sinks.staging_tables import STAGING_SCHEMA


def insert_output(ledger: Ledger, staged: StagedRows) -> Written:
    """Write the staged rows and deletions of the winning tasks, as part of the publishing transaction.

    Records that are older than what is there change nothing, and count as written. A replay first deletes the rows that
    stem from its offsets.

    Raises:
        RowsRefusedError: The target refuses rows, or a record has two rows with one key.
        RetryableError: Staged rows are missing.
        FatalError: Records of a key cannot be compared, the target holds a row of another writer, or it refuses the
            batch as a whole.
    """
    n_rows, n_written = begin(ledger, staged)
    if n_rows > n_written.total() and ledger.rows_of(sink_sql("list_repeated").format(**names(staged)), staged.bound):
        raise RowsRefusedError(f"{staged.attempt}: records have two rows with the same key")
    if staged.target.deletes:
        delete(ledger, staged)
    gather(ledger, staged)
    try:
        _upsert(ledger, staged)
        check_now(ledger, staged.target.deferred)
    except psycopg2.Error as error:
        if error.pgcode is None or error.pgcode[:2] not in OF_A_ROW:
            raise as_a_whole(staged, error) from error
        raise RowsRefusedError(
            f"{staged.attempt}: {staged.target.name} refuses rows: {error.diag.message_primary}"
        ) from error
    drop(ledger, staged, "newest")
    try:
        check_now(ledger, staged.target.referring)
    except psycopg2.Error as error:
        raise as_a_whole(staged, error) from error
    return Written(n_written=n_written, offsets=offsets(ledger, staged))


def begin(ledger: Ledger, staged: StagedRows) -> tuple[int, Counter[int]]:
    """Wait for other publications into the table, and check what is staged. For a replay, delete what it replaces.

    Returns the number of staged rows, and of their records by stream id.

    Raises:
        RetryableError: Staged rows are missing.
        FatalError: Records of a key are from two streams of the batch, or rows belong to no record of it.
    """
    every = [names(staged, table) for table in staged.tables]
    ledger.run_sql(sink_sql("lock_marks").format(**every[0]), {})
    counted = make_room(ledger, staged)
    if staged.attempt.kind is BatchKind.REPLAY:
        bound = {**staged.bound, "deletes": staged.target.deletes}
        ledger.run_sql(sink_sql("delete_replaced_marks").format(**every[0]), bound)
    for one in every:
        ledger.run_sql(sink_sql("analyze_staging").format(**one), {})
    placed = sum(
        row["n_rows"] for one in every for row in ledger.rows_of(sink_sql("count_placed").format(**one), staged.bound)
    )
    if placed != counted[0]:
        raise FatalError(
            f"{staged.attempt}: the transform returned rows whose `kafka` is not a record of the batch",
            next_step="let transform.py return the column `kafka` unchanged",
            entry="transform",
        )
    if len(counted[1]) > 1 and (keys := _compared_by_offset(staged, every)) is not None:
        _refuse_incomparable(
            staged,
            ledger.rows_of(sink_sql("list_two_streams").format(**every[0], staged_keys=keys), staged.bound),
        )
    return counted


def _compared_by_offset(staged: StagedRows, every: Sequence[dict[str, Composable]]) -> Composable | None:
    """Return a statement with the staged keys of which offsets say what is newer; None if there are none."""
    keys = SQL(" UNION ALL ").join(sink_sql("select_staged_keys").format(**one) for one in every)
    if not _upsert_of(staged).order:
        return keys
    return sink_sql("select_unordered_keys").format(**every[-1], staged_keys=keys) if staged.target.deletes else None


def gather(ledger: Ledger, staged: StagedRows, table: str | None = None, *, every_record: bool = False) -> None:
    """Create the table `newest`: the newest staged record of each key, beside what is there of the key.

    Args:
        ledger: The session, in the publishing transaction.
        staged: What the attempt has staged.
        table: The staging table; by default that of the rows.
        every_record: Whether to take all records of each key instead of the newest.

    Raises:
        FatalError: Records of a key cannot be compared, or the target holds a row of another writer.
    """
    of_table = names(staged, table)
    if every_record:
        of_table["one_for_each_key"] = SQL("")
    ledger.run_sql(sink_sql("gather_newest").format(**of_table), staged.bound)
    if foreign := ledger.rows_of(sink_sql("find_foreign").format(**of_table), {}):
        raise occupied(staged, foreign[0])
    if staged.target.deletes or not _upsert_of(staged).order:
        _refuse_incomparable(staged, ledger.rows_of(sink_sql("list_incomparable").format(**of_table), {}))


def drop(ledger: Ledger, staged: StagedRows, table: str) -> None:
    """Drop a table that the transaction has made, by its name in statements."""
    ledger.run_sql(sink_sql("drop_table").format(table=names(staged)[table]), {})


def names(staged: StagedRows, table: str | None = None) -> dict[str, Composable]:
    """Return the values of the {placeholders} in the statements, for one of the attempt's staging tables."""
    upsert = _upsert_of(staged)
    deletes = table == deletions_name(staged.table)
    columns = tuple(column.name for column in (staged.target.deletion_columns if deletes else staged.target.columns))
    order, mark_order = upsert.order, tuple(column.name for column in staged.target.order_columns)
    rest = [*(name for name in columns if name not in upsert.key), *_COORDINATES]
    numbered = {name: f"column_{number}" for number, name in enumerate(columns)}
    known: dict[str, Composable] = {
        **staged.names,
        "staging": Identifier(STAGING_SCHEMA, table or staged.table),
        "newest": Identifier(STAGING_SCHEMA, f"{table or staged.table}_newest"),
        "marks": staged.target.marks,
        "columns": _listed(columns),
        "staged_columns": _listed(columns, "s"),
        "key": _listed(upsert.key),
        "staged_key": _listed(upsert.key, "s"),
        "tried_key": _listed(upsert.key, "tried"),
        "numbered_columns": SQL(", ").join(
            SQL("{} AS {}").format(quoted("s", name), Identifier(number)) for name, number in numbered.items()
        ),
        "newest_columns": _listed([*numbered.values()], "n"),
        "newest_key": _listed([numbered[name] for name in upsert.key], "n"),
        "there_key": _listed(upsert.key, "t"),
        "mark_key": _listed(upsert.key, "m"),
        "newest_order": _each("{}, ", [numbered[name] for name in order], "n"),
        "there_order": _each("{}, ", order, "t"),
        "newest_first": _each("{} DESC, ", order, "s"),
        "mark_order": _each("{}, ", mark_order, "m"),
        "newest_mark_order": _each("{}, ", [numbered[name] for name in mark_order], "n"),
        "mark_columns": _listed((*upsert.key, *mark_order)),
        "mark_assignments": _assignments([*mark_order, *_COORDINATES]),
        "is_unordered": _is_unordered(order, numbered, deletes=deletes),
        "is_mark_unordered": SQL("{} IS NULL").format(quoted("m", mark_order[0])) if mark_order else SQL("true"),
        "assignments": _assignments(rest),
    }
    redriven = staged.attempt.kind is BatchKind.REDRIVE
    placed = sink_sql("place_redriven") if redriven else sink_sql("place_staged")
    if deletes and order:
        known |= _paired(known, upsert.key, order)
    known["placed"] = placed.format(**{**known, "staging": known.get("paired", known["staging"])})
    known["on_conflict"] = sink_sql("on_conflict").format(**known)
    known["one_for_each_key"] = SQL("DISTINCT ON ({})").format(known["staged_key"])
    return known


def _paired(known: dict[str, Composable], key: Sequence[str], order: Sequence[str]) -> dict[str, Composable]:
    """Return the values that are others where staged deletions have an order, some of them from the record before them."""
    ordered = SQL(", ").join(
        SQL("coalesce({}, {}, {}) AS {}").format(*(quoted(of, name) for of in ("s", "before", "m")), quoted(name))
        for name in order
    )
    paired = sink_sql("pair_tombstones").format(**known, ordered=ordered, before_key=_listed(key, "before"))
    # Where one deletion of a key has no order, offsets decide between all of them.
    newest_first = SQL("").join(
        SQL("CASE WHEN bool_or({} IS NULL) OVER (PARTITION BY {}) THEN NULL ELSE {} END DESC, ").format(
            quoted("s", order[0]), known["staged_key"], quoted("s", name)
        )
        for name in order
    )
    return {
        "paired": SQL("({})").format(paired),
        "newest_first": newest_first,
        "unordered": SQL("{} IS NULL").format(quoted("u", order[0])),
        "unordered_key": _listed(key, "u"),
    }


def _is_unordered(order: Sequence[str], numbered: dict[str, str], *, deletes: bool) -> Composable:
    """Return the condition under which only its offset says whether a staged record is newer than another one."""
    if not order:
        return SQL("true")
    return SQL("{} IS NULL").format(quoted("n", numbered[order[0]])) if deletes else SQL("false")


_COORDINATES = ("kafka_topic_id", "kafka_partition", "kafka_offset", "tideline_batch")


def _listed(columns: Sequence[str], table: str | None = None) -> Composable:
    return SQL(", ").join(quoted(*([table] if table else []), name) for name in columns)


def _assignments(columns: Sequence[str]) -> Composable:
    return SQL(", ").join(SQL("{0} = excluded.{0}").format(quoted(name)) for name in columns)


def _each(text: str, columns: Sequence[str], table: str) -> Composable:
    return SQL("").join(SQL(text).format(quoted(table, name)) for name in columns)


def _upsert_of(staged: StagedRows) -> Upsert:
    if staged.target.upsert is None:
        raise TypeError(f"{staged.target.name} is no upsert table")
    return staged.target.upsert


def delete(ledger: Ledger, staged: StagedRows) -> None:
    """Mark the keys whose newest staged record is a tombstone, and delete their older rows."""
    table = deletions_name(staged.table)
    of_table = names(staged, table)
    gather(ledger, staged, table)
    ledger.run_sql(sink_sql("mark_deleted").format(**of_table), {})
    try:
        ledger.run_sql(sink_sql("delete_deleted").format(**of_table), {})
    except psycopg2.Error as error:
        raise as_a_whole(staged, error) from error
    ledger.run_sql(sink_sql("drop_table").format(table=of_table["newest"]), {})


def _upsert(ledger: Ledger, staged: StagedRows) -> None:
    of_table = names(staged)
    [wanted] = ledger.rows_of(sink_sql("count_winning").format(**of_table), {})
    n_rows = ledger.run_sql(sink_sql("upsert_newest").format(**of_table), {})
    if n_rows != wanted["n_rows"]:
        raise RowsRefusedError(f"{staged.attempt}: of {wanted['n_rows']} rows {staged.target.name} has taken {n_rows}")


def _refuse_incomparable(staged: StagedRows, rows: Sequence[DictRow]) -> None:
    for row in rows:
        if row["returned_topic_id"] is not None:
            raise FatalError(
                f"{staged.attempt}: expected to know which of two records of one key of {staged.target.name} is newer, found one of "
                f"{row['topic']}/{row['partition']} and one of {row['other_topic']}/{row['other_partition']}, of two topics of this name: topic id "
                f"{row['returned_topic_id']} was given up for the other one, and has come back",
                next_step="declare sink.order with columns that say it; or empty the table and load it anew; nothing was published",
                entry="topic-has-come-back",
            )
        raise FatalError(
            f"{staged.attempt}: expected each key of {staged.target.name} from one partition, found one key in "
            f"{row['topic']}/{row['partition']} and {row['other_topic']}/{row['other_partition']}: their offsets do not say which record is newer",
            next_step="declare sink.order with columns that do, or send each key to one partition; nothing was published",
            entry="key-in-two-partitions",
        )


def occupied(staged: StagedRows, row: DictRow) -> FatalError:
    """Return the error for a row of the target that another writer has inserted."""
    whose = f"of pipeline {row['pipeline']}" if row["pipeline"] else "which the ledger does not know"
    return FatalError(
        f"{staged.attempt}: {staged.target.name} already holds a row of partition {row['kafka_partition']} offset "
        f"{row['kafka_offset']}, of batch {row['tideline_batch']}, {whose}: another writer has inserted it",
        next_step="let pipelines that share a table load different records; if the ledger was restored, see docs/operating.md#restoring-the-ledger; "
        "else find out who else writes to this table",
        entry="table-refuses-rows",
    )


def prepare_marks(ledger: Ledger, target: Target) -> None:
    """Create the table of deleted keys if it does not exist, and check that it has the key of the target, and its order where deletions have one.

    A table that was created before deletions had an order gets the columns. The marks that are there have none, so offsets decide.

    Raises:
        FatalError: It has another key. Its tombstones would no longer be found.
    """
    with ledger.transaction():
        ledger.rows_of(sink_sql("lock_creation"), {})
        place = {"schema": target.schema, "table": target.marks_table}
        wanted = {column.name: column.type_name for column in target.deletion_columns}
        found = columns_of(ledger, place)
        if not found:
            key = _listed([column.name for column in target.key_columns])
            names = {"marks": target.marks, "target": target.identifier, "key": key, "mark_columns": _listed([*wanted])}
            ledger.run_sql(sink_sql("create_marks").format(**names), {})
            return
        for column in target.order_columns:
            if column.name not in found:
                names = {"target": target.marks, "column": quoted(column.name), "type": SQL(column.sql_type)}
                ledger.run_sql(sink_sql("add_column").format(**names), {})
                found[column.name] = column
        # Without deletions the order of earlier ones may be there still.
        others = {*fitting.COORDINATES, *(target.upsert.order if target.upsert else ())}
        if {name: one.type_name for name, one in found.items() if name in wanted or name not in others} != wanted:
            raise FatalError(
                f"{target.schema}.{target.marks_table}: expected the columns of sink.key ({', '.join(wanted)}) and the "
                f"coordinates, found {', '.join(found)}",
                next_step="if the key has changed, load the table anew: drop both tables, and load everything with a replay; nothing was read",
                entry="table-does-not-fit",
            )
