"""Check what must always hold for the ledger and its database. Called by `tideline doctor`. Read-only.

Constraints and triggers keep the laws. These checks look at the rows themselves, which is needed after a restore, or
after a privileged user has disabled a trigger.
"""

from collections.abc import Iterable
from contextlib import closing
from uuid import UUID

import psycopg2
import psycopg2.errors
from psycopg2.extras import DictCursor
from psycopg2.sql import SQL, Identifier

from tideline.errors import FatalError
from tideline.ledger import rights
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import unreachable
from tideline.ledger.queries import Row
from tideline.ledger.session_settings import plain_conninfo
from tideline.statements import statement


def server(ledger: Ledger) -> Row:
    """Return facts about the database at the ledger's URL, whether or not it holds a ledger."""
    return dict(ledger.rows("view_server")[0])


def settings_of_a_prompt(url: str, variable: str, names: Iterable[str]) -> list[Row]:
    """Return settings with which a session begins that sets nothing itself, such as one of psql, each with its source.

    Args:
        url: libpq URI of the ledger.
        variable: Where the URL comes from, for messages.
        names: The settings; those that the server does not know are left out.

    Raises:
        RetryableError: The server did not answer.
    """
    try:
        with (
            closing(psycopg2.connect(plain_conninfo(url), cursor_factory=DictCursor)) as session,
            session.cursor() as cursor,
        ):
            cursor.execute(statement("tideline.ledger", "view_settings"), {"names": list(names)})
            return [dict(row) for row in cursor.fetchall()]
    except psycopg2.Error as error:
        raise unreachable(error, variable) from error


def lacking_rights(ledger: Ledger, duties: Iterable[str]) -> list[str]:
    """Return the rights that the user of the session lacks for some duties, such as `UPDATE on tideline.batch`."""
    wanted = dict.fromkeys(right for duty in duties for right in rights.rights(duty))
    return [str(right) for right in rights.lacking(ledger, wanted)]


def output_privileges(ledger: Ledger, table: str, *, upsert: bool = False) -> Row:
    """Return `exists` and `can_write` of an output table, given as schema.table. An upsert needs UPDATE as well."""
    schema, name = table.split(".")
    return dict(ledger.rows("view_output_privileges", schema=schema, table=name, upsert=upsert)[0])


def unknown_rows(ledger: Ledger, pipeline: str, table: str) -> list[Row]:
    """Return the streams for which an output table holds a row, at or above the head, that no batch of the ledger has written.

    The table is given as schema.table.

    Raises:
        FatalError: The table lacks the columns of a record's coordinates.
    """
    query = SQL(statement("tideline.ledger", "view_unknown_rows"))
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
    """Return the published ranges whose counts do not add up."""
    return [dict(row) for row in ledger.rows("view_miscounts", pipeline=pipeline)]


def reject_miscounts(ledger: Ledger, pipeline: str | None) -> list[Row]:
    """Return the ranges whose count of rejects differs from the rejects that are kept."""
    return [dict(row) for row in ledger.rows("view_reject_miscounts", pipeline=pipeline)]


def orphan_staging(ledger: Ledger) -> list[Row]:
    """Return the staging tables of attempts that no longer write, with their sizes."""
    return [dict(row) for row in ledger.rows("view_orphan_staging")]


def orphan_rows(ledger: Ledger) -> Row:
    """Return `n_counts` and `n_rejects`: rows that ended attempts have left in the ledger's own staging tables."""
    return dict(ledger.rows("view_orphan_rows")[0])


def silent_attempts(ledger: Ledger, pipeline: str | None, *, seconds: int) -> list[Row]:
    """Return the attempts that hold a batch as writing and have sent no heartbeat for longer than `seconds`."""
    return [dict(row) for row in ledger.rows("view_silent_attempts", pipeline=pipeline, seconds=seconds)]


def outside_batches(ledger: Ledger, pipeline: str, *, most: int) -> list[Row]:
    """Return the newest `most` batches that attempts have claimed for an outside sink, with what their receipts must say."""
    return [dict(row) for row in ledger.rows("view_outside_batches", pipeline=pipeline, most=most)]


def unknown_batches(ledger: Ledger, identities: Iterable[UUID]) -> list[UUID]:
    """Return those of some identities that no batch of the ledger has."""
    return [row["identity"] for row in ledger.rows("view_unknown_batches", identities=list(identities))]
