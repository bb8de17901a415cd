"""Bring the ledger up to date with `python -m tideline.ledger.migrate`: numbered files, in order, under a lock.

All files in one transaction; one that says in its first line that it runs outside of a transaction by itself, between those before it and those
after it. After a crash, migrate again: it goes on where it was.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile

import psycopg2
from psycopg2.sql import SQL, Identifier

from tideline import settings
from tideline.errors import FatalError, RetryableError, TidelineError
from tideline.ledger.connection import Ledger, statement
from tideline.ledger.session_settings import LOCK_TIMEOUT_MS
from tideline.ledger.versions import Migrations, checksum, index_made, is_outside, migrations, missing

_ASK_AGAIN_SECONDS = 0.2


def migrate(ledger: Ledger, known: Migrations | None = None) -> list[str]:
    """Apply what is missing and return the names of the files applied; an empty list when all were there.

    Two at once are safe: the second one waits for the first and finds nothing to do.

    Args:
        ledger: A session that is in no transaction.
        known: The files; by default those of this release.

    Raises:
        FatalError: A file fails, an applied file has changed since, or the database is newer than this code.
        RetryableError: Another process makes an index at this moment, and takes long.
    """
    known = known or migrations()
    done: list[str] = []
    while True:
        number = _apply_inside(ledger, known, done)
        if number is None:
            return done
        with _alone(ledger):
            _apply_outside(ledger, known, number, done)


def _apply_inside(ledger: Ledger, known: Migrations, done: list[str]) -> int | None:
    """Apply what is missing, in one transaction, up to a file that runs outside of it; its number."""
    with ledger.transaction():
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
    """Apply one file outside of a transaction, unless another process has done so; then record it.

    An index whose making was cut off stays there, INVALID, and IF NOT EXISTS would take it for made.
    """
    name, text = known[number]
    with ledger.transaction():
        if number not in missing(ledger, known):
            return
    index = index_made(text)
    with _statements_by_themselves(ledger):
        if index and _is_invalid(ledger, index):
            drop = statement("tideline.ledger", "sql/queries/drop_invalid_index.sql")
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
def _statements_by_themselves(ledger: Ledger) -> Iterator[None]:
    """Each statement is its own transaction, and waits as long as it must: an index made so locks no writer out while it waits for them."""
    ledger.connection.autocommit = True
    try:
        with ledger.transaction():  # nothing to commit; a connection that is lost becomes an error that says what to do
            ledger.run("set_lock_timeout", milliseconds=0)
            yield
    finally:
        if not ledger.connection.closed:
            ledger.run("set_lock_timeout", milliseconds=LOCK_TIMEOUT_MS)
            ledger.connection.autocommit = False


@contextmanager
def _alone(ledger: Ledger) -> Iterator[None]:
    """Hold the lock of the session while a file runs outside of a transaction.

    Asked for again and again: a statement that waits for a lock keeps a snapshot open, and an index that is made concurrently waits until the last
    older snapshot is gone. The two would wait for each other.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT_MS / 1000
    while not _take(ledger):
        if time.monotonic() > deadline:
            raise RetryableError(
                "another process migrates the ledger",
                next_step="wait until it has ended, and migrate again",
                entry="migration-refused",
            )
        time.sleep(_ASK_AGAIN_SECONDS)
    try:
        yield
    finally:
        if not ledger.connection.closed:
            with ledger.transaction():
                ledger.run("unlock_migrations")


def _take(ledger: Ledger) -> bool:
    with ledger.transaction():
        return bool(ledger.rows("try_lock_migrations")[0]["taken"])


def _apply(ledger: Ledger, name: str, text: str) -> None:
    try:
        ledger.run_sql(SQL(text.replace("%", "%%")), {})
    except (psycopg2.OperationalError, psycopg2.InterfaceError):
        raise  # the world was in the way, not the file
    except psycopg2.Error as error:
        raise FatalError(
            f"migration {name} failed: {str(error).splitlines()[0]}",
            next_step="remove what stands in its way, and migrate again; nothing of this file was applied",
            entry="migration-refused",
        ) from error


def main() -> int:
    """Migrate the ledger of TIDELINE_LEDGER_URL and say what was done."""
    try:
        with Ledger(settings.ledger_url(), actor="migrate") as ledger:
            done = migrate(ledger)
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"applied {', '.join(done)}" if done else "the ledger is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
