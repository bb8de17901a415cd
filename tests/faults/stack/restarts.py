"""What an init system does: parts that have ended are started again, by the local stack's own means. And what it has noted of that."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from faults.stack.progress import Progress
from tideline.errors import RetryableError
from tideline.local.stack import Stack

T = TypeVar("T")


class Tending:
    """Looks after a stack. To be used from the thread that started it: Linux ends a process with the thread that started it.

    Args:
        stack: The stack.
        down: How many seconds each part stays away.
    """

    def __init__(self, stack: Stack, down: Mapping[str, float]) -> None:
        self.restarts: list[tuple[str, float]] = []
        """Which part was started again, and when."""
        self._stack = stack
        self._down = down
        self._missed: dict[str, float] = {}

    def until_done(self, progress: Progress, *doings: Future[T]) -> list[T]:
        """Look after it until all of these are done; what they gave. The first error ends the waiting, and so does a hang."""
        while not all(doing.done() for doing in doings):
            for doing in doings:
                if doing.done():
                    doing.result()
            self._look()
            progress.look((len(self.restarts), sum(doing.done() for doing in doings)))
            time.sleep(0.1)
        return [doing.result() for doing in doings]

    def until(self, condition: Callable[[], bool], what: str, *, seconds: float) -> None:
        """Look after it until something has come true."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
            self._look()
            time.sleep(0.2)

    def _look(self) -> None:
        now = time.monotonic()
        for name in self._stack.ended():
            if now - self._missed.setdefault(name, now) < self._down[name]:
                continue
            try:
                self._stack.start_again(name)
            except RetryableError:  # Postgres, beside a session of the server that was killed
                continue
            del self._missed[name]
            self.restarts.append((name, time.time()))
