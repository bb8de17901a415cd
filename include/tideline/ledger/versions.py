"""Determine the version of a ledger: whether exactly the numbered files in `migrations` were applied to it.

Forward only. A file that was applied must never change: its checksum is stored, and a difference is refused.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from tideline.errors import FatalError, RetryableError
from tideline.ledger.connection import Ledger

Migrations = Mapping[int, tuple[str, str]]
"""Number -> (file name, text)."""

_NAME = re.compile(r"(\d{4})_[a-z_]+\.sql")
_OUTSIDE = "-- outside of a transaction\n"
_FORMER = "0002_laws.sql"
"""The second file of each ledger from before the first release, when many files made what 0001_ledger.sql makes."""
# One statement that can be repeated: a crash may happen after the statement and before it is recorded.
_REPEATABLE = re.compile(
    r"(?:CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (?P<index>\w+) ON tideline\.|DROP INDEX CONCURRENTLY IF EXISTS tideline\.\w+)"
    r"[^;]*;\s*"
)


def migrations(folder: Traversable | None = None) -> dict[int, tuple[str, str]]:
    """Return the files of this release, or of another folder, in ascending order without a gap.

    Raises:
        FatalError: A file name has the wrong form, or a number is missing or used twice; or a file that runs outside of
            a transaction cannot be repeated after a crash.
    """
    found: dict[int, tuple[str, str]] = {}
    folder = folder or files("tideline.ledger").joinpath("migrations")
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        match = _NAME.fullmatch(file.name)
        number = int(match.group(1)) if match else 0
        if number != len(found) + 1:
            raise FatalError(
                f"migration {file.name} is not number {len(found) + 1:04}",
                next_step="number the files 0001, 0002, ...",
                entry="migration-refused",
            )
        found[number] = (file.name, file.read_text(encoding="utf-8"))
        if is_outside(found[number][1]) and not _repeatable(found[number][1]):
            raise FatalError(
                f"migration {file.name} runs outside of a transaction, and is not one index that may be made or dropped again",
                next_step="let it hold one CREATE INDEX CONCURRENTLY IF NOT EXISTS name ON tideline...., or one DROP INDEX CONCURRENTLY IF EXISTS",
                entry="migration-refused",
            )
    return found


@cache
def of_this_process() -> dict[int, tuple[str, str]]:
    """Return the files of the release that this process has begun with. On disk there may be those of a newer one by now."""
    return migrations()


def is_outside(text: str) -> bool:
    """Return whether a file says in its first line that it runs outside of a transaction."""
    return text.startswith(_OUTSIDE)


def index_made(text: str) -> str | None:
    """Return the name of the index that a file outside of a transaction creates; None for a file that drops an index."""
    found = _repeatable(text)
    return found["index"] if found else None


def _repeatable(text: str) -> re.Match[str] | None:
    return _REPEATABLE.fullmatch(re.sub(r"--.*\n", "", text).strip())


def checksum(text: str) -> str:
    """Return the SHA-256 checksum of a file's text, as the ledger stores it."""
    return hashlib.sha256(text.encode()).hexdigest()


def missing(ledger: Ledger, known: Migrations) -> list[int]:
    """Return the numbers of the files that were not applied to the ledger. Called within a transaction.

    Raises:
        FatalError: The ledger is from before the first release, or newer than the files, or one of them has changed since.
    """
    rows = ledger.rows("list_migrations")
    if _FORMER in (row["name"] for row in rows):
        raise FatalError(
            "the ledger is from before the first release: expected that 0001_ledger.sql had made all of it, "
            f"found {len(rows)} migrations up to {rows[-1]['name']}",
            next_step="use the commit of Tideline that has migrated it; or let the URL lead to an empty database, and run: tideline migrate",
            entry="migration-refused",
        )
    applied: dict[int, Any] = {row["number"]: row["checksum"] for row in rows}
    if unknown := applied.keys() - known.keys():
        raise FatalError(
            f"the ledger has migration {max(unknown):04}, this code knows {len(known):04} only",
            next_step="install the release of Tideline that the ledger was migrated with, or a newer one",
            entry="migration-refused",
        )
    for number in sorted(applied):
        name, text = known[number]
        if checksum(text) != applied[number]:
            raise FatalError(
                f"migration {name} has changed since it was applied (sha256 {applied[number][:12]} then, {checksum(text)[:12]} now)",
                next_step="restore the file as it was released and put the change in a new migration",
                entry="migration-refused",
            )
    return sorted(known.keys() - applied.keys())


def require_current(ledger: Ledger) -> None:
    """Refuse a ledger of another release before any other query is sent to it.

    An older ledger lacks laws that the code relies on; a newer one may have others. Each task, Spark driver and command
    checks this once. A connection of a Spark task or a heartbeat belongs to a driver that has checked it.

    Raises:
        FatalError: The ledger is older or newer than this code, or there is no ledger.
    """
    known = of_this_process()
    with ledger.transaction():
        lacking = missing(ledger, known)
    if lacking:
        raise FatalError(
            f"the ledger is older than this code: it has not had {', '.join(known[number][0] for number in lacking)}",
            next_step="when the tasks of the older release have ended, run: tideline migrate",
            entry="ledger-not-migrated",
        )


def require_same(n_applied: int, what: str) -> None:
    """Refuse a ledger that was migrated since this process began.

    Args:
        n_applied: How many migrations the ledger has.
        what: What is refused, for the message.

    Raises:
        RetryableError: They are not as many as this code knows.
    """
    n_known = len(of_this_process())
    if n_known != n_applied:
        raise RetryableError(
            f"{what} was refused: the ledger was migrated since this process began. It has {n_applied} migrations, this code knows {n_known}",
            next_step="run the task again: its next try uses the release that is installed now",
            entry="ledger-not-migrated",
        )
