"""A simulated process: a greenlet that does one task, and stops wherever another process could come in between, or a fault strikes it."""

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

ASK, SPARK = "ask", "spark"
"""Points beside those of the ledger: a question to the broker, and a step of Spark."""
_COMMITS = {Strike.COMMIT_KEPT: "committed", Strike.COMMIT_LOST: "commit"}
COMMITS = frozenset(_COMMITS.values())
_LOST = "server closed the connection unexpectedly"
_POLL_SECONDS = 2.0
_NEVER = {"table-refuses-rows", "offsets-taken-meanwhile"}
"""Entries of the runbook for what has no cause here: no other program writes to the table, and batches of the same offsets take turns. Else a replay
that can never publish looks like one that a person gives up."""


class KilledError(BaseException):
    """SIGKILL: no handler of an error sees it, and whatever cleans up on the way out finds that it can do nothing any more."""


class Scheduler:
    """Who runs. Only one process does, and only one is in a transaction: others that need the ledger let it finish first."""

    def __init__(self, database: MemoryDatabase, tally: Tally) -> None:
        self.database = database
        self.tally = tally
        self.said = ""
        """The last statement, but for COMMITs."""
        self.unexpected: list[Exception] = []
        """Errors that no verb may raise."""
        self.running: SimulatedProcess | None = None
        self.holding: SimulatedProcess | None = None
        """Whose transaction is open, if one is."""

    def finish_transaction(self) -> None:
        """Until none is open."""
        while self.database.holder is not None:
            self.holding.go(1)


class SimulatedProcess:
    """One process, as `faults.schedule_runner.Process` has it."""

    def __init__(self, scheduler: Scheduler, task: Callable[[], list[int] | None], name: str) -> None:
        self.name = name
        self.ended: Ended | None = None
        self.waiting = self.frozen = False
        self.struck: Strike | None = None
        """What has struck it, since it was set going the last time."""
        self.heart: SimulatedHeartbeat | None = None
        """Beats while this process lives and writes."""
        self.knows = self.stops_by = -1
        """The version of Kafka that it was told about last, and the one because of which it has stopped a stream."""
        self.is_cancelled = False
        """Whether its Spark jobs are to end."""
        self._scheduler = scheduler
        self._database = scheduler.database
        self._task = task
        self._greenlet = greenlet(self._run)
        self._session: MemoryLedger | None = None
        self._armed: Strike | None = None
        self._steps = self._left = 0
        self._dead = self._blocked = False
        self._has_published = False
        """In a COMMIT whose answer was lost, and nothing else has struck it."""
        self._was_struck = False

    def go(self, steps: int) -> int:
        self._steps = steps
        self._switch()
        return self._steps

    def strike(self, strike: Strike, after: int) -> int | None:
        self._steps = -1  # never 0: it goes on until it is struck
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
        except Exception as error:  # noqa: BLE001 - whoever plays the schedule looks at it
            self.ended = Ended(error=error)
            published = self._has_published and isinstance(error, CommitUnknownError)
            if not isinstance(error, TidelineError) or published or error.entry in _NEVER:
                self._scheduler.unexpected.append(error)
        self.heart = None
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
        """Instead of `time.sleep`, where a process waits for another one."""
        self.waiting = True
        self._pause()

    def cancel(self) -> None:
        """Let its Spark jobs fail at their next step."""
        self.is_cancelled = True

    def point(self, name: str, session: MemoryLedger | None = None) -> None:
        """Called before each thing that this process does to the world outside; a fault comes out of it."""
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
        """COMMITs are those of its own session: what becomes of an executor's is Spark's affair."""
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
        """What it is armed with strikes here; afterwards it stops at the next occasion."""
        self.struck, self._armed, self._steps = self._armed, None, 0
        self._scheduler.tally.strikes[str(self.struck)] += 1
        of_publish = self.struck in _COMMITS and self._scheduler.said == "clear_staging"  # its last statement
        # Not after another strike: that one's batch may have failed with a COMMIT of its own, and the others went on.
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
                # The server does not wait for ever for a client that is silent within a transaction.
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
    """Instead of the thread beside a write; its arguments are those of `spark_jobs.heartbeat.Heartbeat`."""

    def __init__(self, process: SimulatedProcess, attempt: UUID, superseded: Callable[[], object]) -> None:
        self._process = process
        self._attempt = attempt
        self._superseded = superseded

    def __enter__(self) -> Self:
        self._process.heart = self
        return self

    def __exit__(self, *_: object) -> None:
        self._process.heart = None

    def beat(self, ledger: MemoryLedger) -> None:
        """Once, between two steps of the process."""
        if not attempts.beat(ledger, self._attempt):
            self._process.heart = None
            self._superseded()


def _error(name: str) -> Exception:
    match name:
        case "connect":
            return psycopg2.OperationalError("connection refused")
        case "ask":
            return RetryableError("brokers: no answer", next_step="wait")
        case "spark":
            return PySparkException("Job aborted due to stage failure")
        case _:
            return refusal("lock_not_available", "canceling statement due to lock timeout")
