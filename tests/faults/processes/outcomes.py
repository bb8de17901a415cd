"""Translate the results of processes, and vary the ways in which one fault can strike."""

from collections.abc import Callable, Iterator
from itertools import cycle

import psycopg2
import psycopg2.errors

from faults.operations import Strike
from faults.processes import gate
from faults.schedule_runner import Ended
from servers.cutting_proxy import cut_after, cut_meanwhile
from tideline.errors import FatalError, RetryableError, TidelineError

_NEVER = (
    "deadlock detected",
    "refuses the output",
    "the ledger's database refused",
    "an error that Tideline does not know",
)
"""Texts of errors that verbs may raise and another try may heal, but that must not occur here: they mean that two
verbs take their locks in different orders, that a row was published twice, that a law is broken, or a defect."""


class UnexpectedError(TidelineError):
    """An error that no verb may raise unless it was injected."""


class Variety:
    """Different ways for the same fault to happen, taken in turn."""

    def __init__(self) -> None:
        self.errors: Iterator[type[Exception]] = cycle(
            (psycopg2.errors.LockNotAvailable, psycopg2.OperationalError, RuntimeError)
        )
        self.cuts = cycle((True, False))
        self.away = cycle((True, False))
        """Whether storage is out of reach from now on, or only one answer of it is lost."""
        self.kept = cycle((cut_after, cut_meanwhile))


def as_played(outcome: gate.Ended) -> Ended:
    """Translate the result of a process into what the runner of the schedule expects."""
    if not outcome.error:
        return Ended(batch_ids=outcome.batch_ids)
    if any(words in outcome.text for words in _NEVER):
        return Ended(error=UnexpectedError(f"{outcome.error}: {outcome.text}", next_step=""))
    kind = FatalError if outcome.lasting else RetryableError if outcome.ours else UnexpectedError
    return Ended(error=kind(f"{outcome.error}: {outcome.text}", next_step=""))


class QuickProcess:
    """A process that no fault strikes and that runs alone: its first step is its whole task."""

    waiting = frozen = False

    def __init__(self, name: str, task: Callable[[], gate.Ended]) -> None:
        self.name = name
        self.pid = 0
        self.ended: Ended | None = None
        self.struck: list[tuple[Strike, str]] = []
        self.n_commits = 0
        self.was_refused = False
        self._task = task

    def go(self, steps: int) -> int:
        self.ended = as_played(self._task())
        return steps - 1

    def strike(self, strike: Strike, after: int) -> int:
        self.go(1)
        return after

    def kill(self) -> None:
        if self.ended is None:
            self.ended = Ended(killed=True)
