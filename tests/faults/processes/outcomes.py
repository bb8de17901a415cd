"""How processes end, and in how many ways the same fault can happen to them."""

from collections.abc import Callable, Iterator
from itertools import cycle

import psycopg2
import psycopg2.errors

from cutting_proxy import cut_after, cut_meanwhile
from faults.operations import Strike
from faults.processes import gate
from faults.schedule_runner import Ended
from tideline.errors import FatalError, RetryableError, TidelineError

_NEVER = ("deadlock detected", "refuses the output")
"""What verbs may raise and another try may heal, and yet: two of them take their locks in different orders, or somebody publishes a row twice."""


class UnexpectedError(TidelineError):
    """What no verb may raise, unless it was put there."""


class Variety:
    """Ways for the same thing to happen, each in its turn."""

    def __init__(self) -> None:
        self.errors: Iterator[type[Exception]] = cycle(
            (psycopg2.errors.LockNotAvailable, psycopg2.OperationalError, RuntimeError)
        )
        self.cuts = cycle((True, False))
        self.kept = cycle((cut_after, cut_meanwhile))


def as_played(outcome: gate.Ended) -> Ended:
    """What a process said at its end, as whoever plays the schedule wants to know it."""
    if not outcome.error:
        return Ended(batch_ids=outcome.batch_ids)
    if any(words in outcome.text for words in _NEVER):
        return Ended(error=UnexpectedError(f"{outcome.error}: {outcome.text}", next_step=""))
    kind = FatalError if outcome.lasting else RetryableError if outcome.ours else UnexpectedError
    return Ended(error=kind(f"{outcome.error}: {outcome.text}", next_step=""))


class QuickProcess:
    """One that nobody strikes and nobody else is beside of: its first step is its whole task."""

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
