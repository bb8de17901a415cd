"""Make a process wait before each of its steps until the conductor lets it continue.

This module holds the process's end of the pipe, and the messages that pass through it.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing.connection import Connection
from typing import Any


class Kind(StrEnum):
    """What a step does on the outside."""

    STATEMENT = "statement"
    COMMIT = "commit"
    COPY = "copy"
    ASK = "ask"
    """A question to the broker, or a read of its records."""
    LAKE = "lake"
    """A read, a list, a write or a removal in the folder of a Delta table."""
    PUT = "put"
    """A conditional put of the next entry of a Delta table's log: the commit of a lake."""
    WAIT = "wait"
    """No effect: it sleeps until another process is finished."""
    END = "end"
    """No effect: the process only has to report its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One effect that a process is about to have."""

    name: str
    kind: Kind
    backend: int | None = None
    """The pid of the Postgres backend that would carry it out."""
    port: int | None = None
    """The local port of the connection."""
    inside: bool = False
    """Whether a transaction is open."""
    table: str = ""
    """The table, for a COPY."""
    writes: bool = False
    """For a COMMIT: whether the transaction may have changed something."""


@dataclass(frozen=True, slots=True)
class Question:
    """A step that needs an answer: what the broker says, and what its logs hold."""

    step: Step
    method: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of a Delta table's log, which takes effect if the version behind `behind` is free when it arrives."""

    uri: str
    behind: int
    added: Sequence[Any]
    removed: Sequence[Mapping[str, Any]]
    mode: str
    schema: str
    partition_by: Sequence[str]
    transactions: Sequence[tuple[str, int]]
    metadata: Mapping[str, Any]

    @property
    def has_rows(self) -> bool:
        """Return whether it commits what an attempt has written. Markers have even versions."""
        return any(version % 2 for _, version in self.transactions)


@dataclass(frozen=True, slots=True)
class Put:
    """A step that sends an entry. The answer may be an `Outcome`; without one it arrives, and its sender learns it."""

    step: Step
    entry: Entry | None
    """None for the one that creates the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What becomes of an entry, and of its sender, which gets no answer."""

    arrives: bool
    dies: bool = False
    """The sender is killed before it could get one."""
    away: bool = False
    """Storage does not answer the sender any more until its end."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a process. `error` is empty if it succeeded."""

    batch_ids: list[int] | None = None
    error: str = ""
    """The name of the error's class."""
    text: str = ""
    ours: bool = False
    """Whether it is an error that a verb may raise."""
    lasting: bool = False
    """Whether Airflow fails the task at once."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The conductor's answer: continue with the requested value, or raise an error instead of taking the step."""

    value: Any = None
    error: BaseException | None = None


class Gate:
    """The process's end of the pipe.

    Args:
        pipe: The pipe to the conductor.
        watched: Whether steps wait. Questions always wait, since the conductor has the log.
    """

    def __init__(self, pipe: Connection, *, watched: bool) -> None:
        self._pipe = pipe
        self._watched = watched

    @property
    def watches(self) -> bool:
        """Return whether a step of this thread waits. Heartbeats run in another thread and are no steps."""
        return self._watched and threading.current_thread() is threading.main_thread()

    def reach(self, step: Step) -> None:
        """Wait before a step; raise the error that the conductor injects instead of it."""
        if self.watches:
            self._ask(step)

    def ask(self, name: str, method: str, *arguments: Any, **named: Any) -> Any:
        """Ask the broker a question, which is a step, and return the answer."""
        return self._ask(Question(Step(name=name, kind=Kind.ASK), method, arguments, named))

    def put(self, put: Put) -> Outcome | None:
        """Wait before an entry is sent; raise the error that the conductor injects instead of it."""
        outcome: Outcome | None = self._ask(put)
        return outcome

    def end(self, ended: Ended) -> None:
        """Report that the process is finished."""
        self._pipe.send(ended)

    def _ask(self, message: Step | Question | Put) -> Any:
        self._pipe.send(message)
        answer: Answer = self._pipe.recv()
        if answer.error is not None:
            raise answer.error
        return answer.value
