"""Bring the ledger up to date with `tideline migrate`: apply numbered files, in order, under a lock.

All files are applied in one transaction. A file whose first line says that it runs outside of a transaction is applied
by itself, between the files before it and those after it. After a crash, migrate again: it continues where it stopped.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile

import psycopg2
from psycopg2.sql import SQL, Identifier

from tideline.errors import FatalError, RetryableError
from tideline.ledger.connection import Ledger
from tideline.ledger.session_settings import LOCK_TIMEOUT_MS
from tideline.ledger.versions import Migrations, checksum, index_made, is_outside, migrations, missing
from tideline.statements import statement

_POLL_SECONDS = 0.2
ENCODING = "UTF8"


def migrate(ledger: Ledger, known: Migrations | None = None) -> list[str]:
    """Apply the missing files and return their names; an empty list if none was missing.

    Two concurrent calls are safe: the second one waits for the first and finds nothing to do.

    Args:
        ledger: A session without an open transaction.
        known: The files; by default those of this release.

    Raises:
        FatalError: The encoding of the database is not UTF8, a file fails, an applied file has changed since, or the
            database is newer than this code.
        RetryableError: Another process creates an index at this moment, and that takes long.
    """
    known = known or migrations()
    done: list[str] = []
    while True:
        number = _apply_inside(ledger, known, done)
        if number is None:
            return done
        with _migration_lock(ledger):
            _apply_outside(ledger, known, number, done)


def _require_encoding(ledger: Ledger) -> None:
    """Refuse a database that cannot keep every text. The first record with another character would fail its batch for ever."""
    found = ledger.connection.info.parameter_status("server_encoding")  # as the server reports it to each client
    if found != ENCODING:
        raise FatalError(
            f"database {ledger.connection.info.dbname}: expected the encoding {ENCODING}, found {found}, which cannot keep every text",
            next_step=f"create a database with TEMPLATE template0 ENCODING '{ENCODING}' for the ledger and its output tables; what is in this one "
            "moves there by pg_dump and pg_restore",
            entry="migration-refused",
        )


def _apply_inside(ledger: Ledger, known: Migrations, done: list[str]) -> int | None:
    """Apply the missing files in one transaction, up to the first that runs outside of one.

    Return the number of that file, or None.
    """
    with ledger.transaction():
        _require_encoding(ledger)
        ledger.run("prepare_migrations")
        pending = missing(ledger, known)
        inside = list(takewhile(lambda number: not is_outside(known[number][1]), pending))
        for number in inside:
            name, text = known[number]
            _apply(ledger, name, text)
            ledger.run("record_migration", number=number, name=name, checksum=checksum(text))
    done += [known[number][0] for number in inside]
    return next(iter(pending[len(inside) :]), None)


def _apply_outside(ledger: Ledger, known: Migrations, number: int, done: list[str]) -> None:
    """Apply one file outside of a transaction, unless another process has done so, and record it.

    An index whose creation was interrupted stays in the database as INVALID, and IF NOT EXISTS would accept it as
    created. So it is dropped first.
    """
    name, text = known[number]
    with ledger.transaction():
        if number not in missing(ledger, known):
            return
    index = index_made(text)
    with _autocommit(ledger):
        if index and _is_invalid(ledger, index):
            drop = statement("tideline.ledger", "drop_invalid_index")
            ledger.run_sql(SQL(drop).format(index=Identifier("tideline", index)), {})
        _apply(ledger, name, text)
    with ledger.transaction():
        if index and _is_invalid(ledger, index):
            raise FatalError(
                f"migration {name} failed: index {index} is not valid",
                next_step="migrate again, which drops it first",
                entry="migration-refused",
            )
        ledger.run("record_migration", number=number, name=name, checksum=checksum(text))
    done.append(name)


def _is_invalid(ledger: Ledger, index: str) -> bool:
    return bool(ledger.rows("find_invalid_index", name=index))


@contextmanager
def _autocommit(ledger: Ledger) -> Iterator[None]:
    """Run each statement in its own transaction and without a lock timeout.

    CREATE INDEX CONCURRENTLY waits for writers and blocks none while it waits, so it may wait without a limit.
    """
    ledger.connection.autocommit = True
    try:
        with ledger.transaction():  # it has nothing to commit, but it translates the error of a lost connection
            ledger.run("set_lock_timeout", milliseconds=0)
            yield
    finally:
        if not ledger.connection.closed:
            ledger.run("set_lock_timeout", milliseconds=LOCK_TIMEOUT_MS)
            ledger.connection.autocommit = False


@contextmanager
def _migration_lock(ledger: Ledger) -> Iterator[None]:
    """Hold the migration lock of the session while a file runs outside of a transaction.

    The lock is polled. A statement that waits for a lock keeps a snapshot open, and an index that is created
    concurrently waits until all older snapshots are gone. The two would wait for each other.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT_MS / 1000
    while not _try_lock(ledger):
        if time.monotonic() > deadline:
            raise RetryableError(
                "another process migrates the ledger",
                next_step="wait until it has ended, and migrate again",
                entry="migration-refused",
            )
        time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        if not ledger.connection.closed:
            with ledger.transaction():
                ledger.run("unlock_migrations")


def _try_lock(ledger: Ledger) -> bool:
    with ledger.transaction():
        return bool(ledger.rows("try_lock_migrations")[0]["taken"])


def _apply(ledger: Ledger, name: str, text: str) -> None:
    try:
        ledger.run_sql(SQL(text.replace("%", "%%")), {})
    except (psycopg2.OperationalError, psycopg2.InterfaceError):
        raise  # the database is temporarily unavailable; the file is not at fault
    except psycopg2.Error as error:
        raise FatalError(
            f"migration {name} failed: {str(error).splitlines()[0]}",
            next_step="remove the cause, and migrate again; nothing of this file was applied",
            entry="migration-refused",
        ) from error
