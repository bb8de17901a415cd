"""Run the harness's work in parallel worker processes, each with an environment of its own."""

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
"""The environment of this worker."""


class Workers:
    """A pool of workers, started with their first work package; each has its own server.

    Args:
        folder: Each worker creates its own folder in it.
        count: The number of workers.
    """

    def __init__(self, folder: Path, count: int = COUNT) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(count, mp_context=spawn, initializer=_begin, initargs=(folder,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run `work(ground, *arguments)` in one of the workers."""
        return self._pool.submit(_work, work, arguments)


def _begin(folder: Path) -> None:
    stack = ExitStack()
    _here.append(stack.enter_context(ground(Path(tempfile.mkdtemp(dir=folder)))))
    Finalize(stack, stack.close, exitpriority=10)


def _work(work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return work(_here[0], *arguments)
