"""Processes that do the harness's work side by side, each on ground of its own."""

import multiprocessing
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Self

from faults.processes.ground import Ground, ground

COUNT = 2
_here: list[Ground] = []
"""Of this worker."""


class Workers:
    """Started with the first work that they are given; each has its own server.

    Args:
        folder: Under which each makes one of its own.
        count: How many.
    """

    def __init__(self, folder: Path, count: int = COUNT) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(count, mp_context=spawn, initializer=_begin, initargs=(folder,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """`work(ground, *arguments)`, in one of them."""
        return self._pool.submit(_work, work, arguments)


def _begin(folder: Path) -> None:
    stack = ExitStack()
    _here.append(stack.enter_context(ground(Path(tempfile.mkdtemp(dir=folder)))))
    Finalize(stack, stack.close, exitpriority=10)


def _work(work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return work(_here[0], *arguments)
