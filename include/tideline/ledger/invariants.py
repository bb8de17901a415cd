"""What should hold of the ledger and its database whatever happens, as questions that a person may ask again. Called by `tideline doctor`.

The laws are kept by constraints and triggers; these look at the rows themselves, as they would have to after a restore, or after somebody with
the right to do so has switched a trigger off. Only looks.
"""

import psycopg2.errors
from psycopg2.sql import SQL, Identifier

from tideline.errors import FatalError
from tideline.ledger.connection import Ledger, statement
from tideline.ledger.queries import Row
from tideline.ledger.versions import checksum, migrations


def server(ledger: Ledger) -> Row:
    """The database that the ledger's URL leads to, whether or not there is a ledger in it."""
    return dict(ledger.rows("view_server")[0])


def pending_migrations(ledger: Ledger) -> list[str]:
    """Names of the migrations that are missing, or that were applied with another text."""
    applied = {row["number"]: row["checksum"] for row in ledger.rows("list_migrations")}
    return [name for number, (name, text) in migrations().items() if applied.get(number) != checksum(text)]


def privileges(ledger: Ledger) -> Row:
    """`can_stage`, and `closed_tables` of the ledger that its user cannot read or write."""
    return dict(ledger.rows("view_privileges")[0])


def output_privileges(ledger: Ledger, table: str) -> Row:
    """`exists` and `can_write` of an output table, given as schema.table."""
    schema, name = table.split(".")
    return dict(ledger.rows("view_output_privileges", schema=schema, table=name)[0])


def table_writers(ledger: Ledger, table: str) -> list[Row]:
    """The pipelines that have claimed an output table, given as schema.table, and whether each of them shares it."""
    return [dict(row) for row in ledger.rows("view_table_writers", table=table)]


def unknown_rows(ledger: Ledger, pipeline: str, table: str) -> list[Row]:
    """Streams at or above whose head an output table, given as schema.table, holds a row that no batch of the ledger has written.

    Raises:
        FatalError: The table lacks the columns of a record's coordinates.
    """
    query = SQL(statement("tideline.ledger", "sql/queries/view_unknown_rows.sql"))
    try:
        rows = ledger.rows_of(query.format(table=Identifier(*table.split("."))), {"pipeline": pipeline})
    except psycopg2.errors.UndefinedColumn as error:
        raise FatalError(
            f"{pipeline}: {table} has not the columns of an output table: {error.diag.message_primary}",
            next_step="create the table as docs/pipelines.md describes, or declare another sink.table",
            entry="table-does-not-fit",
        ) from error
    return [dict(row) for row in rows]


def miscounts(ledger: Ledger, pipeline: str | None) -> list[Row]:
    """Published ranges whose counts do not add up."""
    return [dict(row) for row in ledger.rows("view_miscounts", pipeline=pipeline)]


def reject_miscounts(ledger: Ledger, pipeline: str | None) -> list[Row]:
    """Ranges that count other rejects than are kept."""
    return [dict(row) for row in ledger.rows("view_reject_miscounts", pipeline=pipeline)]


def orphan_staging(ledger: Ledger) -> list[Row]:
    """Staging tables that nobody writes to any more, with their size."""
    return [dict(row) for row in ledger.rows("view_orphan_staging")]


def orphan_rows(ledger: Ledger) -> Row:
    """`n_counts` and `n_rejects` that attempts have left in the ledger's own staging tables."""
    return dict(ledger.rows("view_orphan_rows")[0])


def silent_attempts(ledger: Ledger, pipeline: str | None, *, seconds: int) -> list[Row]:
    """Attempts that have been silent for longer than `seconds` and hold a batch as writing."""
    return [dict(row) for row in ledger.rows("view_silent_attempts", pipeline=pipeline, seconds=seconds)]
