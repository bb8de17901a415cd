"""Drive a real process as schedules need it: it takes some steps, waits for a lock, is struck."""

import time
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException

from faults.operations import Strike
from faults.processes.gate import Kind, Outcome, Step
from faults.processes.lake import Lake
from faults.processes.outcomes import Variety, as_played
from faults.processes.process import PATIENCE_SECONDS, HangsError, LiveProcess
from faults.schedule_runner import Ended
from servers.cutting_proxy import CuttingProxy, cut_before
from tideline.errors import RetryableError

_COMMITS = {Strike.COMMIT_KEPT, Strike.COMMIT_LOST}
_PROMPT_SECONDS = 0.05
"""A process that has reached no step after so long may be waiting for a lock."""


class ActingProcess:
    """See `faults.schedule_runner.Process`.

    Args:
        live: The real process.
        name: The name of its task.
        proxy: The proxy between it and the server.
        query: Runs a statement on the server, outside of the process.
        variety: Shared by all processes of a schedule.
        lake: The Delta table that it may write to.
        on_end: Called before its last step, when all its promises must be kept.
    """

    def __init__(
        self,
        live: LiveProcess,
        name: str,
        *,
        proxy: CuttingProxy,
        query: Callable[..., list[tuple[Any, ...]]],
        variety: Variety,
        lake: Lake | None,
        on_end: Callable[[], None],
    ) -> None:
        self.name = name
        self.pid = live.pid
        self.ended: Ended | None = None
        self.waiting = self.frozen = False
        self.struck: list[tuple[Strike, str]] = []
        """The faults that have struck it, each with the step before which it struck."""
        self.n_commits = 0
        self.was_refused = False
        """Whether an unexpected error was injected into it."""
        self._live = live
        self._proxy = proxy
        self._query = query
        self._variety = variety
        self._lake = lake
        self._on_end = on_end
        self._session: Step | None = None
        """The step of its last statement."""

    def go(self, steps: int) -> int:
        self._wake()
        while steps > 0 and self._is_at_step():
            self._step()
            steps -= 1
        self._is_at_step()
        return steps

    def strike(self, strike: Strike, after: int) -> int | None:
        self._wake()
        while self._is_at_step():
            at = self._at
            if self._can(strike, at):
                if after == 0:
                    self.struck.append((strike, at.name))
                    self._hit(strike, at)
                    return None
                after -= 1
            self._step()
        return after

    def kill(self) -> None:
        if self.ended is None:
            self._live.kill()
            self.ended = Ended(killed=True)

    @property
    def _at(self) -> Step:
        """Return the step before which it waits."""
        assert self._live.at is not None
        return self._live.at

    def _wake(self) -> None:
        if self.frozen:
            self._live.thaw()
        self.frozen = False
        if self.waiting and self._live.at is not None:
            self._live.go()  # end its sleep
        self.waiting = False

    def _is_at_step(self) -> bool:
        """Return whether it is before a step that it can take. If not, it has ended or waits."""
        if self.ended is not None or not self._reached_step():
            return False
        if self._live.gone:
            self._settle()
            return False
        if self._at.kind is Kind.WAIT:
            self.waiting = True
            return False
        return True

    def _reached_step(self) -> bool:
        """Wait until it has reached its next step or its end. Return False if another process has to continue first."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._live.hear(_PROMPT_SECONDS):
            if self._session is not None and self._query(_BLOCKED, self._session.backend) == [(True,)]:
                self.waiting = True
                return False
            if time.monotonic() > deadline:
                raise HangsError(f"{self.name}: nothing for {PATIENCE_SECONDS} s after {self._session}")
        return True

    def _step(self) -> None:
        at = self._at
        if at.kind is Kind.END:
            self._on_end()
        if at.backend is not None:
            self._session = at
        if self._lake and at.kind in {Kind.LAKE, Kind.PUT}:
            self._lake.step()
        self.n_commits += at.kind in {Kind.COMMIT, Kind.PUT}
        self._live.go(put=self._lake.sent(self._live.entry) if self._lake and at.kind is Kind.PUT else None)

    def _settle(self) -> None:
        outcome = self._live.outcome
        self.ended = Ended(killed=True) if outcome is None else as_played(outcome)

    def _can(self, strike: Strike, at: Step) -> bool:
        if strike in _COMMITS:
            # A COMMIT of an executor is handled by Spark: the failpoint matrix covers it.
            return at.kind in {Kind.COMMIT, Kind.PUT} and at.writes and not at.name.startswith("task: ")
        if strike is Strike.CUT:
            return at.kind in {Kind.COPY, Kind.LAKE, Kind.PUT} or (at.backend or self._session) is not None
        return strike is not Strike.ERROR or at.kind is not Kind.END

    def _hit(self, strike: Strike, at: Step) -> None:
        match strike:
            case Strike.KILL:
                self.kill()
            case Strike.ERROR:
                self.was_refused = True
                self._live.go(self._refusal(at))
                self._is_at_step()
            case Strike.CUT if at.kind is Kind.LAKE:
                self._live.go(OSError("Generic LocalFileSystem error: storage does not answer"))
                self._is_at_step()
            case Strike.CUT | Strike.COMMIT_KEPT | Strike.COMMIT_LOST if self._lake and at.kind is Kind.PUT:
                arrives = strike is Strike.COMMIT_KEPT
                self._lake.not_answered(self._live.entry, arrives=arrives)
                self._live.go(put=Outcome(arrives=arrives, away=next(self._variety.away)))
                self._is_at_step()
            case Strike.CUT:
                self._cut(at)
            case Strike.COMMIT_KEPT | Strike.COMMIT_LOST:
                act = next(self._variety.kept) if strike is Strike.COMMIT_KEPT else cut_before
                self._proxy.at("COMMIT", act, port=at.port)
                self._step()
                self._is_at_step()
            case Strike.FREEZE:
                self._live.freeze()
                self.frozen = True
                if at.inside:  # the server ends a transaction whose client is silent for long
                    self._query("SELECT pg_terminate_backend(%s, 5000)", at.backend)

    def _refusal(self, at: Step) -> Exception:
        match Kind.COPY if at.name == "task: write a file" else at.kind:
            case Kind.ASK if at.name.startswith("broker"):
                return RetryableError("brokers: no answer", next_step="wait")
            case Kind.ASK | Kind.COPY:
                failure: Exception = PySparkException("Job aborted due to stage failure")
                return failure
            case _:
                return next(self._variety.errors)("injected")

    def _cut(self, at: Step) -> None:
        """Cut its connection; it notices at its next statement."""
        if at.kind is Kind.COPY:
            self._proxy.at(f'"{at.table}"', cut_before)
            return
        session = at if at.backend is not None else self._session
        assert session is not None
        assert session.port is not None
        if next(self._variety.cuts):
            self._proxy.cut(session.port)
        else:
            self._query("SELECT pg_terminate_backend(%s, 5000)", session.backend)


_BLOCKED = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock')
    OR EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'COPY %%')"""
