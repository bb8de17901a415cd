"""Where a process waits before each of its steps, until the conductor lets it go on. The process's end of the pipe, and what passes through it."""

import copyreg
import threading
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection
from typing import Any

from tideline.errors import FatalError, NeedsOperatorError, RetryableError, SupersededError, TidelineError


class Kind(StrEnum):
    """What a step does to the outside."""

    STATEMENT = "statement"
    COMMIT = "commit"
    COPY = "copy"
    ASK = "ask"
    """A question to the broker, or a read of its records."""
    WAIT = "wait"
    """Nothing: it sleeps until another process is through."""
    END = "end"
    """Nothing is left to do but to tell whoever waits for the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One effect that a process is about to have."""

    name: str
    kind: Kind
    backend: int | None = None
    """The server's process that would carry it out."""
    port: int | None = None
    """The process's end of the connection."""
    inside: bool = False
    """Whether a transaction is open."""
    table: str = ""
    """Of a COPY."""
    writes: bool = False
    """Of a COMMIT: whether the transaction may have changed something."""


@dataclass(frozen=True, slots=True)
class Question:
    """A step that wants an answer: what the broker says, and what it holds."""

    step: Step
    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """The process is through. `error` is empty where it has succeeded."""

    batch_ids: list[int] | None = None
    error: str = ""
    """The name of its class."""
    text: str = ""
    ours: bool = False
    """Whether it is one that a verb may raise."""
    lasting: bool = False
    """Whether Airflow fails the task at once."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the conductor says: go on, with what was asked for; or with an error instead of the step."""

    value: Any = None
    error: BaseException | None = None


def _pickled(error: TidelineError) -> tuple[Any, ...]:
    return _made, (type(error), error.problem, error.next_step, error.entry)


def _made(kind: type[TidelineError], problem: str, next_step: str, entry: str | None) -> TidelineError:
    return kind(problem, next_step=next_step, entry=entry)


for _kind in (FatalError, NeedsOperatorError, RetryableError, SupersededError):
    copyreg.pickle(_kind, _pickled)


class Gate:
    """The process's end of the pipe.

    Args:
        pipe: To the conductor.
        watched: Whether steps wait; questions always do, since the conductor has the log.
    """

    def __init__(self, pipe: Connection, *, watched: bool) -> None:
        self._pipe = pipe
        self._watched = watched

    @property
    def watches(self) -> bool:
        """Whether a step of this thread waits. The heart beats beside the steps, and is none of them."""
        return self._watched and threading.current_thread() is threading.main_thread()

    def reach(self, step: Step) -> None:
        """Wait before a step; raises what the conductor wants to happen instead of it."""
        if self.watches:
            self._ask(step)

    def ask(self, name: str, method: str, *arguments: Any) -> Any:
        """A question to the broker: a step, and its answer."""
        return self._ask(Question(Step(name=name, kind=Kind.ASK), method, arguments))

    def end(self, ended: Ended) -> None:
        """Say that the process is through."""
        self._pipe.send(ended)

    def _ask(self, message: Step | Question) -> Any:
        self._pipe.send(message)
        answer: Answer = self._pipe.recv()
        if answer.error is not None:
            raise answer.error
        return answer.value
