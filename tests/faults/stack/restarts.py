"""Do what the supervisor of the local stack does: start parts again that have ended or hang, and record the restarts."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from faults.stack.progress import Progress
from tideline.errors import RetryableError
from tideline_stack.stack import Stack


class Restarter:
    """Restarts the parts of a stack. Use it from the thread that started the stack: Linux ends a process when the
    thread that started it ends.

    Args:
        stack: The stack.
        down: Seconds for which each part stays down.
    """

    def __init__(self, stack: Stack, down: Mapping[str, float]) -> None:
        self.restarts: list[tuple[str, float]] = []
        """The restarted parts, each with the time of its restart."""
        self._stack = stack
        self._down = down
        self._missed: dict[str, float] = {}

    def until_done(self, progress: Progress, *activities: Future[Any]) -> None:
        """Restart parts until all activities are done. The first error and a hang end the waiting."""
        while not all(activity.done() for activity in activities):
            for activity in activities:
                if activity.done():
                    activity.result()
            self._look()
            progress.look((len(self.restarts), sum(activity.done() for activity in activities)))
            time.sleep(0.1)
        for activity in activities:
            activity.result()

    def until(self, condition: Callable[[], bool], what: str, *, seconds: float) -> None:
        """Restart parts until a condition is true; raise AssertionError if it is not within `seconds`."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
            self._look()
            time.sleep(0.2)

    def _look(self) -> None:
        now = time.monotonic()
        for name in self._stack.failed():
            if now - self._missed.setdefault(name, now) < self._down[name]:
                continue
            try:
                self._stack.start_again(name)
            except RetryableError:  # Postgres, while a backend of the killed server still runs
                continue
            del self._missed[name]
            self.restarts.append((name, time.time()))
