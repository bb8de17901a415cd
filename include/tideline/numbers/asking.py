"""Asks questions that may take long in threads, at most one of each name at a time.

A caller waits as long as it likes. A question that is not answered by then goes on, and the next caller waits for it instead of asking again.
The threads end with the process: a broker that does not answer must not hold up the end of a command.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Asking(Generic[T]):
    """Questions of one kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._pending: dict[str, Future[T]] = {}
        self._lock = threading.Lock()

    def ask(self, name: str, question: Callable[[], T]) -> Future[T]:
        """Return the answer to come: of this question, or of the one of that name that is not answered yet."""
        with self._lock:
            if (pending := self._pending.get(name)) is not None:
                return pending
            future: Future[T] = Future()
            self._pending[name] = future
        threading.Thread(
            target=self._answer, args=(name, future, question), name=f"{self._kind} {name}", daemon=True
        ).start()
        return future

    def _answer(self, name: str, future: Future[T], question: Callable[[], T]) -> None:
        try:
            answer = question()
        except Exception as error:  # noqa: BLE001 - the caller that waits for it gets it
            future.set_exception(error)
        else:
            future.set_result(answer)
        finally:
            with self._lock:
                del self._pending[name]
