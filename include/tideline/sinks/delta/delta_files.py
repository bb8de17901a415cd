"""The files that attempts have staged in the folder of a Delta table. Readers see none of them before it is committed.

They lie in `tideline/<identity of the batch>/<fence>-<identity of the attempt>/`, below the table's folder, and stay there when they
are committed. So whose they are is known from their path alone, also after a crash. Batches and fences of a ledger that
was restored have the numbers of others that are committed already: with numbers alone, the files of these would be
written over.
"""

import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from tideline.domain.receipts import IDENTITY, Receipt
from tideline.sinks.delta.delta_log import Location

ROOT = "tideline"
MERGED = f"{ROOT}/merged"
"""The folder of files that upkeep makes of small ones."""
_PATH = re.compile(rf"{ROOT}/({IDENTITY})/(\d+)-({IDENTITY})/[^/]+")


class NewFiles(DeltaStorageHandler):
    """A folder in which a file that exists is never opened for writing.

    Args:
        root: Its absolute path.
    """

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._root = Path(root)

    def open_output_stream(self, path: str, metadata: Mapping[str, str] | None = None) -> pa.PythonFile:  # noqa: ARG002 - a handler's signature
        """Create a file. The library's own stream would replace one that exists, also if the table consists of it.

        Raises:
            FileExistsError: There is one.
        """
        file = self._root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        return pa.PythonFile(file.open("xb"), mode="w")


class StagedFile(NamedTuple):
    """A file in the folder of an attempt."""

    path: str
    """Relative to the table's folder, as the log names it."""
    batch: UUID
    """The identity of its batch."""
    fence: int
    attempt: UUID


def folder(identity: UUID, own: Receipt) -> str:
    """Return the folder of an attempt's files, relative to the table's. Upkeep knows from the fence whether it can still commit."""
    return f"{ROOT}/{identity}/{own.fence}-{own.attempt}"


def filesystem(location: Location) -> fs.FileSystem:
    """Return the table's folder as a file system. It connects when it is used.

    Raises:
        RetryableError: The folder is gone, for example because its storage was unmounted. The next attempt finds out.
    """
    try:
        if location.uri.startswith("/"):
            return fs.PyFileSystem(NewFiles(location.uri))
        return fs.PyFileSystem(DeltaStorageHandler(location.uri, dict(location.options)))
    except (DeltaError, OSError) as error:
        raise location.unavailable(error) from error


def staged(location: Location, batch: UUID | None = None) -> list[StagedFile]:
    """Return the files of all attempts, or of those at one batch, whether they are committed or not.

    Raises:
        RetryableError: Storage did not answer.
    """
    below = ROOT if batch is None else f"{ROOT}/{batch}"
    return [found for path in _listed(location, below) if (found := of_path(path)) is not None]


def of_path(path: str) -> StagedFile | None:
    """Return whose file it is, by its path; None if it is no attempt's."""
    match = _PATH.fullmatch(path)
    return None if match is None else StagedFile(path, UUID(match[1]), int(match[2]), UUID(match[3]))


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
