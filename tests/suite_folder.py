"""Gives the suites of a run one temporary folder: in memory, where there is enough of it.

The tests copy and drop thousands of databases. Beside other suites that takes a fifth of the time in memory that it takes on a disk.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_IN_MEMORY = Path("/dev/shm")
_NAME = "tideline-tests-"
_FILES = 8 << 30
"""Bytes that must be free for files: twice of what the suites were seen to need."""
_MEMORY = 16 << 30
"""Bytes of memory that must be free for files and servers."""


@contextmanager
def temporary() -> Iterator[Path]:
    """Provide the folder, and remove it, also where the run fails or is asked to end. Folders of runs that were killed are removed first."""
    root = _root()
    _remove_those_of_killed_runs(root)
    folder = Path(tempfile.mkdtemp(prefix=f"{_NAME}{os.getpid()}-", dir=root))
    try:
        yield folder
    finally:
        # Without an error for what a program that was left behind still writes: the search for processes reports that program.
        shutil.rmtree(folder, ignore_errors=True)


def _root() -> Path:
    """Return the folder of the system that temporary folders are made in."""
    in_memory = os.access(_IN_MEMORY, os.W_OK) and shutil.disk_usage(_IN_MEMORY).free >= _FILES
    return _IN_MEMORY if in_memory and psutil.virtual_memory().available >= _MEMORY else Path(tempfile.gettempdir())


def _remove_those_of_killed_runs(root: Path) -> None:
    """Remove what runs of this user have left whose process has ended: in memory it would stay until the machine is started again."""
    for folder in root.glob(f"{_NAME}*-*"):
        pid = folder.name.removeprefix(_NAME).partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)) and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
