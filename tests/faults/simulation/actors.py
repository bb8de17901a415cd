"""Simulate processes as greenlets.

A greenlet does one task. It stops at each point where another process could interfere, or where a fault strikes it.
"""

from collections.abc import Callable
from typing import Self
from uuid import UUID

import psycopg2
from greenlet import greenlet
from pyspark.errors import PySparkException

from faults.memory import MemoryDatabase, MemoryLedger
from faults.memory.refusals import refusal
from faults.operations import Strike
from faults.schedule_runner import Ended
from faults.simulation.tally import Tally
from tideline.errors import RetryableError, TidelineError
from tideline.ledger import attempts
from tideline.ledger.connection import CommitUnknownError
from tideline.ledger.database_errors import RefusedStatementError

ASK, SPARK, OUTSIDE, SENT = "ask", "spark", "outside", "sent"
"""Names of points in addition to the ledger's statements: a question to the broker, a step of Spark, a call of the
outside sink, and the moment after a commit was sent to it."""
_COMMITS = {Strike.COMMIT_KEPT: "committed", Strike.COMMIT_LOST: "commit"}
COMMITS = frozenset(_COMMITS.values())
_LOST = "server closed the connection unexpectedly"
_POLL_SECONDS = 2.0
_NEVER = {"table-refuses-rows", "offsets-taken-meanwhile", "ledger-refuses", "unexpected-error"}
"""Runbook entries of errors that have no cause here: no other program writes to the table, batches of the same offsets
take turns, and no verb does what a law refuses. If these errors were allowed, a replay that can never publish would look
like one that an operator abandons."""


class KilledError(BaseException):
    """SIGKILL. No `except Exception` catches it, and cleanup code that runs on the way out can have no effect any
    more."""


class Scheduler:
    """Decide which process runs.

    Only one process runs at a time, and only one has an open transaction. Another process that needs the ledger first
    lets that transaction finish.
    """

    def __init__(self, database: MemoryDatabase, tally: Tally) -> None:
        self.database = database
        self.tally = tally
        self.last_statement = ""
        """The last statement that was not a COMMIT."""
        self.unexpected: list[Exception] = []
        """Errors that no verb may raise."""
        self.is_restored = False
        """Whether the database was restored while drivers may still have been running, which docs/operating.md forbids.

        The restored ledger assigns their attempt ids again, and does not know such attempts: it refuses what their tasks
        stage. Any other error is unexpected.
        """
        self.running: SimulatedProcess | None = None
        self.holding: SimulatedProcess | None = None
        """The process with the open transaction, if there is one."""

    @property
    def current(self) -> "SimulatedProcess":
        """Return the running process, for what only a process does."""
        assert self.running is not None
        return self.running

    def finish_transaction(self) -> None:
        """Let the process with an open transaction continue until no transaction is open."""
        while self.database.holder is not None:
            assert self.holding is not None
            self.holding.go(1)


class SimulatedProcess:
    """A simulated process; see `faults.schedule_runner.Process`."""

    def __init__(self, scheduler: Scheduler, task: Callable[[], list[int] | None], name: str) -> None:
        self.name = name
        self.ended: Ended | None = None
        self.waiting = self.frozen = False
        self.struck: Strike | None = None
        """The fault that has struck it since it was last resumed."""
        self.heartbeat: SimulatedHeartbeat | None = None
        """Its heartbeat, while this process lives and writes."""
        self.seen_version = self.stopped_at_version = -1
        """The version of the simulated Kafka in the last answer to it, and the version because of which it has
        stopped a stream."""
        self.writes_nothing = False
        """Whether it may commit nothing: a dry run."""
        self.is_cancelled = False
        """Whether its Spark jobs are cancelled."""
        self._scheduler = scheduler
        self._database = scheduler.database
        self._task = task
        self._greenlet = greenlet(self._run)
        self._session: MemoryLedger | None = None
        self._armed: Strike | None = None
        self._steps = self._left = 0
        self._dead = self._blocked = False
        self._has_published = False
        """Whether it has published with a COMMIT whose answer was lost, and no other fault has struck it."""
        self._was_struck = False

    def go(self, steps: int) -> int:
        self._steps = steps
        self._switch()
        return self._steps

    def strike(self, strike: Strike, after: int) -> int | None:
        self._steps = -1  # never 0: it continues until it is struck
        self._armed, self._left = strike, after
        self._switch()
        self._armed = None
        return self._left if self.struck is None else None

    def kill(self) -> None:
        self._dead = True
        self._switch()

    def _run(self) -> None:
        try:
            self.ended = Ended(batch_ids=self._task())
        except KilledError:
            self.ended = Ended(killed=True)
        except Exception as error:  # noqa: BLE001 - the runner of the schedule examines it
            self.ended = Ended(error=error)
            published = self._has_published and isinstance(error, CommitUnknownError)
            is_expected = isinstance(error, TidelineError) and not published and error.entry not in _NEVER
            if not is_expected:
                is_unknown = (
                    isinstance(error, RefusedStatementError) and error.diag.constraint_name == "attempt_is_known"
                )
                is_expected = self._scheduler.is_restored and is_unknown
            if not is_expected:
                self._scheduler.unexpected.append(error)
        self.heartbeat = None
        how = "killed" if self.ended.killed else type(self.ended.error).__name__ if self.ended.error else "ok"
        self._scheduler.tally.tasks[f"{self.name} {how}"] += 1

    def _switch(self) -> None:
        if self.ended is not None:
            return
        if self.waiting:
            self._database.pass_time(_POLL_SECONDS)
        self.waiting = self.frozen = False
        self.struck = None
        outer = self._scheduler.running
        while True:
            self._scheduler.running = self
            self._greenlet.switch()
            self._scheduler.running = outer
            if not self._blocked:
                return
            self._blocked = False
            self._scheduler.finish_transaction()

    def _pause(self) -> None:
        self._greenlet.parent.switch()
        if self._dead:
            raise KilledError

    def sleep(self) -> None:
        """Replace `time.sleep` where a process waits for another one."""
        self.waiting = True
        self._pause()

    def cancel(self) -> None:
        """Let its Spark jobs fail at their next step."""
        self.is_cancelled = True

    def point(self, name: str, session: MemoryLedger | None = None) -> None:
        """Pass a point: called before each effect that this process has on the outside.

        An armed fault strikes here and may raise its error.
        """
        if self._dead:
            raise KilledError
        if session is not None and self._session is None:
            self._session = session
        if self._armed is not None and self._can_strike(name, session):
            if not self._left:
                self._hit(name, session)
            self._left -= 1
        begins = session is not None and name not in COMMITS and name != "connect" and not session.in_transaction
        if begins or session is None:
            self._stop_here()
        if begins:
            self._begin()

    def _can_strike(self, name: str, session: MemoryLedger | None) -> bool:
        """Return whether the armed fault can strike at this point.

        Faults of COMMITs strike only in its own session: a COMMIT of an executor is handled by Spark.
        """
        if self._armed in _COMMITS:
            return name == _COMMITS[self._armed] and session is self._session
        return name not in COMMITS or self._armed is not Strike.ERROR

    def _stop_here(self) -> None:
        if self._steps == 0:
            self._pause()
        self._steps -= 1

    def _begin(self) -> None:
        while self._database.holder is not None:
            self._blocked = True
            self._pause()
        self._scheduler.holding = self

    def _hit(self, name: str, session: MemoryLedger | None) -> None:
        """Let the armed fault strike here. Afterwards the process stops at the next point."""
        self.struck, self._armed, self._steps = self._armed, None, 0
        self._scheduler.tally.strikes[str(self.struck)] += 1
        # `clear_staging` is the last statement of a publish.
        of_publish = self.struck in _COMMITS and self._scheduler.last_statement == "clear_staging"
        # Not after another strike: the batch of that strike may have failed with a COMMIT of its own while the others
        # continued.
        self._has_published = of_publish and self.struck is Strike.COMMIT_KEPT and not self._was_struck
        self._was_struck = True
        self._scheduler.tally.unknown_commits += self.struck in _COMMITS
        self._scheduler.tally.resolved += of_publish
        match self.struck:
            case Strike.KILL:
                self._dead = True
                raise KilledError
            case Strike.ERROR:
                raise _error(name)
            case Strike.FREEZE:
                self.frozen = True
                # The server ends a transaction whose client is silent for long.
                self._lose_transaction()
                self._pause()
            case Strike.LOSE:
                self._pause()
            case _ if session is not None:
                raise psycopg2.OperationalError(_LOST)
            case _:
                self._lose(self._session)

    def _lose_transaction(self) -> None:
        if self._database.holder is not None and self._scheduler.holding is self:
            self._lose(self._database.holder.session)

    def _lose(self, session: MemoryLedger | None) -> None:
        if session is not None:
            session.connection.lose()


class SimulatedHeartbeat:
    """Replace the heartbeat thread of a write; the arguments are those of `tideline.spark_jobs.heartbeat.Heartbeat`."""

    def __init__(self, process: SimulatedProcess, attempt: UUID, superseded: Callable[[], object]) -> None:
        self._process = process
        self._attempt = attempt
        self._superseded = superseded

    def __enter__(self) -> Self:
        self._process.heartbeat = self
        return self

    def __exit__(self, *_: object) -> None:
        self._process.heartbeat = None

    def beat(self, ledger: MemoryLedger) -> None:
        """Send one heartbeat, between two steps of the process."""
        if not attempts.beat(ledger, self._attempt):
            self._process.heartbeat = None
            self._superseded()


def _error(name: str) -> Exception:
    match name:
        case "connect":
            return psycopg2.OperationalError("connection refused")
        case "ask":
            return RetryableError("brokers: no answer", next_step="wait")
        case "outside" | "sent":
            return RetryableError("the outside sink: no answer", next_step="wait")
        case "spark":
            failure: Exception = PySparkException("Job aborted due to stage failure")
            return failure
        case _:
            return refusal("lock_not_available", "canceling statement due to lock timeout")
