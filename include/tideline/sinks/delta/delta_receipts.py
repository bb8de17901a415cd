"""Find the receipt of a batch in the log of a Delta table, and whether the table still shows what its commit has stored.

A restore takes files back, and neither commits nor versions of batches. So what it has undone is in the history, and gone.
"""

import math
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tideline.domain.receipts import Receipt

_LAST_COMMITS = 100
"""So many commits are searched first for that of a receipt."""


class UntoldError(Exception):
    """A restore of the table names a time, and no version before it that can be read has the files that it has brought back.

    Args:
        version: The version that the restore has made.
    """

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version} has restored the table to a time")
        self.version = version


def receipt(table: DeltaTable, application: str, fence: int) -> Receipt | None:
    """Return the receipt of the commit that has stored data of this application id; None if the log does not hold the commit any more.

    Raises:
        DeltaError, OSError: Storage did not answer.
        UntoldError: The table was restored since, and what it shows of before is not known.
    """
    for limit in (_LAST_COMMITS, None):
        shown = math.inf  # the newest version of which the table still shows something
        for made in table.history(limit):
            is_shown = made["version"] <= shown
            if (made.get("tideline_application"), made.get("tideline_fence")) == (application, str(fence)):
                said = f"batch {made.get('tideline_batch')}, {made.get('tideline_ranges')}"
                return Receipt(fence=fence, attempt=UUID(made["tideline_attempt"]), said=said, gone=not is_shown)
            if is_shown and made.get("operation") == "RESTORE":
                shown = _restored_to(table, made)
    return None


def _restored_to(table: DeltaTable, made: Mapping[str, Any]) -> int:
    """Return the version that a RESTORE has brought back.

    It may name a time instead. By which clock and in which time zone, only the program knows that has restored: delta-rs takes the times of the files
    of the log, which are not those in the history. So the newest version before it is found that had the same files.
    """
    version = str((made.get("operationParameters") or {}).get("version"))
    if version.isdigit():
        return int(version)
    restored = made["version"]
    try:
        files = _files(table, restored)
        return next(earlier for earlier in range(restored - 1, -1, -1) if _files(table, earlier) == files)
    except StopIteration as error:
        raise UntoldError(restored) from error
    except DeltaError as error:
        _files(table, None)  # storage that does not answer raises here as well; else the log does not reach back
        raise UntoldError(restored) from error


def _files(table: DeltaTable, version: int | None) -> frozenset[str]:
    """Return the files of a version, of the newest one if it is None."""
    found = DeltaTable(table.table_uri, version=version, storage_options=table._storage_options)  # noqa: SLF001 - it has no name
    return frozenset(found.file_uris())
