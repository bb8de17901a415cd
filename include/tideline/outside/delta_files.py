"""The files that attempts have staged in the folder of a Delta table. Readers see none of them before it is committed.

They lie in `tideline/<batch>/<fence>/`, below the table's folder, and stay there when they are committed. So whose they are
is known from their path alone, also after a crash.
"""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from tideline.outside.delta_log import Location

ROOT = "tideline"
MERGED = f"{ROOT}/merged"
"""The folder of files that upkeep makes of small ones."""
_PATH = re.compile(rf"{ROOT}/(\d+)/(\d+)/[^/]+")


class Staged(NamedTuple):
    """A file in the folder of an attempt."""

    path: str
    """Relative to the table's folder, as the log names it."""
    batch_id: int
    fence: int


def folder(batch_id: int, fence: int) -> str:
    """Return the folder of an attempt's files, relative to the table's."""
    return f"{ROOT}/{batch_id}/{fence}"


def filesystem(location: Location) -> fs.FileSystem:
    """Return the table's folder as a file system. It connects when it is used.

    Raises:
        RetryableError: The folder is gone, for example because its storage was unmounted. The next attempt finds out.
    """
    try:
        return fs.PyFileSystem(DeltaStorageHandler(location.uri, dict(location.options)))
    except (DeltaError, OSError) as error:
        raise location.unavailable(error) from error


def staged(location: Location, batch_id: int | None = None) -> list[Staged]:
    """Return the files of all attempts, or of those at one batch, whether they are committed or not.

    Raises:
        RetryableError: Storage did not answer.
    """
    below = ROOT if batch_id is None else f"{ROOT}/{batch_id}"
    matches = [match for path in _listed(location, below) if (match := _PATH.fullmatch(path))]
    return [Staged(match[0], int(match[1]), int(match[2])) for match in matches]


def everything(location: Location) -> set[str]:
    """Return all files in the table's folder, also those of its log.

    Raises:
        RetryableError: Storage did not answer.
    """
    return {*_listed(location, "")}


def _listed(location: Location, below: str) -> list[str]:
    try:
        found = filesystem(location).get_file_info(fs.FileSelector(below, recursive=True, allow_not_found=True))
    except OSError as error:
        raise location.unavailable(error) from error
    return [one.path for one in found if one.type is fs.FileType.File]


def remove(location: Location, paths: Iterable[str]) -> int:
    """Delete files. Return how many. One that is gone already does not matter; an object store counts it all the same.

    Raises:
        RetryableError: Storage did not answer.
    """
    files, n_removed = filesystem(location), 0
    for path in paths:
        try:
            files.delete_file(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise location.unavailable(error) from error
        n_removed += 1
    return n_removed


def remove_empty(location: Location, path: str) -> None:
    """Remove a folder without files. An object store has no such folders."""
    if location.uri.startswith("/"):
        shutil.rmtree(Path(location.uri, path), ignore_errors=True)
