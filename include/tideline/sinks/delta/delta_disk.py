"""Flush a Delta table in a local folder to disk. An object store keeps what it has acknowledged.

The law: what a receipt stands for outlives a loss of power, because the ledger's COMMIT does. So a commit flushes, in this order: the
data files, the folders that name them, the log, the folders that name it. And an attempt that finds the receipt of a
process that was killed before it had flushed, flushes before it takes the batch for committed.
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from deltalake import DeltaTable

_LOG = "_delta_log"
_NUMBERED = re.compile(r"(\d{20})\.(checkpoint\b)?[\w.-]*")
"""A version of the log. The draft of one has `#` in its name, and goes away when it is taken for the version."""
_AT_ONCE = 8
_NOT_FOR_FOLDERS = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}
"""What file systems say that have no flush for folders: they write names at once."""

_flushed: dict[str, frozenset[tuple[str, int]]] = {}
"""By the id of a table, the files of its log that this process has flushed: their names, and when they were changed."""


def folder_of(table: DeltaTable) -> Path | None:
    """Return the folder of a table; None if it is in an object store."""
    address = urlsplit(table.table_uri)
    return Path(url2pathname(address.path)) if address.scheme == "file" else None


def flush_files(table: DeltaTable, paths: Iterable[str]) -> None:
    """Flush data files that are about to be committed, and the folders that name them.

    Args:
        table: Their table.
        paths: Relative to its folder.

    Raises:
        OSError: A file is not there, or the disk has an error.
    """
    root, files = folder_of(table), [*paths]
    if root is None or not files:
        return
    _flush([root / path for path in files])
    _flush({folder for path in files for folder in _up(root / path, root)})


def flush_log(table: DeltaTable) -> None:
    """Flush the log of a table from its newest checkpoint on. That includes what others have written: no version is read without those before it.

    Raises:
        OSError: The disk has an error.
    """
    root = folder_of(table)
    if root is None:
        return
    name = str(table.metadata().id)
    before = _flushed.get(name)
    found = _of_log(root / _LOG)
    if found == before:
        return
    _flush(root / _LOG / one for one, _ in found - (before or frozenset()))
    _flush([root / _LOG, root] if before is not None else [root / _LOG, *_up(root / _LOG, Path("/"))])
    _flushed[name] = found


def _of_log(folder: Path) -> frozenset[tuple[str, int]]:
    """Return the files that a reader of the newest version needs."""
    found: list[tuple[int, str, int]] = []
    begin = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            match = _NUMBERED.fullmatch(entry.name)
            if match is None and entry.name != "_last_checkpoint":
                continue
            version = int(match[1]) if match else 2**63
            begin = max(begin, version) if match and match[2] else begin
            with suppress(FileNotFoundError):  # the cleaning of the log has just deleted it: a checkpoint stands for it
                found.append((version, entry.name, entry.stat().st_mtime_ns))
    return frozenset((name, changed) for version, name, changed in found if version >= begin)


def _up(path: Path, root: Path) -> Iterator[Path]:
    """Yield the folders above a path, up to the root."""
    for folder in path.parents:
        yield folder
        if folder == root:
            return


def _flush(paths: Iterable[Path]) -> None:
    """Flush files or folders, several at a time."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(_flush_one, paths):
            pass


def _flush_one(path: Path) -> None:
    try:
        opened = os.open(path, os.O_RDONLY)
    except PermissionError:
        if path.is_dir():
            return  # not made by this process, which may read what it makes
        raise
    try:
        os.fsync(opened)
    except OSError as error:
        if not (path.is_dir() and error.errno in _NOT_FOR_FOLDERS):
            raise
    finally:
        os.close(opened)
