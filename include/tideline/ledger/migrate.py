"""Bring the ledger up to date with `python -m tideline.ledger.migrate`: numbered files, in order, under a lock.

Forward only. A file that was applied must never change: its checksum is kept, and a difference is refused.
"""

import hashlib
import re
import sys
from importlib.resources import files

import psycopg2
from psycopg2.sql import SQL

from tideline import settings
from tideline.errors import FatalError, TidelineError
from tideline.ledger.connection import Ledger

_NAME = re.compile(r"(\d{4})_[a-z_]+\.sql")


def migrations() -> dict[int, tuple[str, str]]:
    """Number -> (file name, text), in ascending order without a gap.

    Raises:
        FatalError: A file has another form of name, or a number is missing or used twice.
    """
    found: dict[int, tuple[str, str]] = {}
    for file in sorted(files("tideline.ledger").joinpath("sql/migrations").iterdir(), key=lambda entry: entry.name):
        match = _NAME.fullmatch(file.name)
        number = int(match.group(1)) if match else 0
        if number != len(found) + 1:
            raise FatalError(
                f"migration {file.name} is not number {len(found) + 1:04}",
                next_step="number the files 0001, 0002, ...",
                entry="migration-refused",
            )
        found[number] = (file.name, file.read_text(encoding="utf-8"))
    return found


def migrate(ledger: Ledger) -> list[str]:
    """Apply what is missing and return the names of the files applied; an empty list when all were there.

    Two at once are safe: the second one waits for the first and finds nothing to do.

    Raises:
        FatalError: A file fails, an applied file has changed since, or the database is newer than this code.
    """
    known = migrations()
    with ledger.transaction():
        ledger.run("prepare_migrations")
        applied = {row["number"]: row for row in ledger.rows("list_migrations")}
        if len(applied) > len(known):
            raise FatalError(
                f"the ledger has migration {max(applied):04}, this code knows {len(known):04} only",
                next_step="install the release of Tideline that the ledger was migrated with, or a newer one",
                entry="migration-refused",
            )
        done = []
        for number, (name, text) in known.items():
            checksum = hashlib.sha256(text.encode()).hexdigest()
            if number in applied:
                _check(name, checksum, applied[number]["checksum"])
                continue
            _apply(ledger, name, text)
            ledger.run("record_migration", number=number, name=name, checksum=checksum)
            done.append(name)
    return done


def _apply(ledger: Ledger, name: str, text: str) -> None:
    try:
        ledger.run_sql(SQL(text.replace("%", "%%")), {})
    except (psycopg2.OperationalError, psycopg2.InterfaceError):
        raise  # the world was in the way, not the file
    except psycopg2.Error as error:
        raise FatalError(
            f"migration {name} failed: {str(error).splitlines()[0]}",
            next_step="remove what stands in its way, and migrate again; nothing was changed",
            entry="migration-refused",
        ) from error


def _check(name: str, checksum: str, applied: str) -> None:
    if checksum != applied:
        raise FatalError(
            f"migration {name} has changed since it was applied (sha256 {applied[:12]} then, {checksum[:12]} now)",
            next_step="restore the file as it was released and put the change in a new migration",
            entry="migration-refused",
        )


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
