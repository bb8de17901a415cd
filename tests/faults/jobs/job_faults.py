"""Define the faults of a schedule: what is killed or frozen, at which moment, and how it is restarted."""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import TypeVar

import psutil

from faults.jobs.crashing_servers import Servers
from faults.jobs.rounds import TASK_S, Rounds
from faults.jobs.spark_submit import Job
from faults.jobs.write_progress import Moment, Witness

Result = TypeVar("Result")

# Mostly, the heartbeat of a frozen driver is set back by a minute, so that the test need not wait until it is too old.
_AGE = "UPDATE tideline.attempt SET heartbeat_at = heartbeat_at - interval '61 s' WHERE pid = %s AND ended_at IS NULL"
_BACKENDS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND application_name NOT IN ('witness', 'watch') ORDER BY pid"""


class Kind(StrEnum):
    """What a fault does. The order matters: no four neighbours contain both kinds that kill nothing."""

    FROZEN = "driver frozen while another job takes over"
    JVM = "JVM killed"
    BACKEND = "Postgres backend killed"
    WORKER = "Python worker killed"
    BROKER = "broker killed"
    BESIDE = "second job beside the first"
    DRIVER = "Python driver killed"
    POSTMASTER = "postmaster killed"
    EVERYTHING = "everything killed at once"


_POSTMASTERS = {Kind.POSTMASTER, Kind.EVERYTHING}
_BROKERS = {Kind.BROKER, Kind.EVERYTHING}
START, ANY = "start", "any"
"""Moments in addition to those of an attempt: the first seconds of a job, and any time."""
_OF_JOB = (START, Moment.CLAIMED, Moment.READING, Moment.STAGING, Moment.PUBLISHING)
_JUST_S = 2
_MOMENTS = {
    Kind.FROZEN: (Moment.CLAIMED, Moment.READING, Moment.STAGING),
    Kind.WORKER: (Moment.READING, Moment.STAGING),
    Kind.BACKEND: (*_OF_JOB[1:], ANY),
    Kind.POSTMASTER: (*_OF_JOB, ANY),
    Kind.BROKER: (*_OF_JOB, ANY),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A planned fault."""

    kind: Kind
    moment: str
    seconds: float
    """Seconds after the beginning of the moment."""
    down: float
    """Seconds until a killed server is started again."""
    held: bool
    """Whether a publishing transaction is struck before it gets its first lock, instead of somewhere later."""
    which: int
    """Selects one of several sessions of Postgres."""
    same_task: bool
    """Whether a second job is the next try of the same task, which takes over at once. If not, it belongs to another
    run."""
    waits: bool = False
    """Whether another run really waits until a frozen driver has been silent for a minute."""

    def __str__(self) -> str:
        return f"{self.kind} ({self.moment})"


def draw(rng: Random, kind: Kind) -> Fault:
    """Draw a fault of a kind, at a moment that suits it."""
    moment = rng.choice(_MOMENTS.get(kind, _OF_JOB))
    longest = {START: 3.0, ANY: 3.0, Moment.CLAIMED: 0.5, Moment.PUBLISHING: 0.08}.get(moment, 0.2)
    return Fault(
        kind=kind,
        moment=moment,
        seconds=rng.uniform(0, longest),
        down=rng.choice((0.0, rng.uniform(0, 3))),
        held=rng.random() < 0.3,
        which=rng.randrange(1000),
        same_task=rng.random() < 0.5,
        waits=rng.random() < 0.1,
    )


class Striker:
    """Carries out the faults of a schedule.

    Args:
        servers: The servers that may be killed besides the jobs.
        rounds: The runs whose jobs are struck.
        witness: Reports the progress of the jobs.
    """

    def __init__(self, servers: Servers, rounds: Rounds, witness: Witness) -> None:
        self._servers = servers
        self._rounds = rounds
        self._witness = witness
        self._frozen: psutil.Process | None = None

    def strike(self, fault: Fault) -> int:
        """Wait for the fault's moment, strike, and repair. Return the number of killed processes; 0 if everything was
        loaded before the moment."""
        deadline = time.monotonic() + TASK_S
        killed = None
        while killed is None and self._rounds.alive():
            assert time.monotonic() < deadline, f"nothing was found to strike: {fault}"
            with self._moment(fault) as job:
                killed = None if job is None else self._hit(fault, job)
            time.sleep(0.05)
        self._rounds.check()
        if killed is None:
            return 0
        self._repair(fault)
        return killed

    def _hit(self, fault: Fault, job: Job) -> int | None:
        """Strike, and return the number of killed processes. Return None if there was no process of the kind: then
        the moment has to recur."""
        match fault.kind:
            case Kind.JVM:
                killed = _kill([job.jvm])
            case Kind.DRIVER:
                killed = _kill([job.driver])
            case Kind.WORKER:
                killed = _kill(job.workers[:1])
            case Kind.EVERYTHING:
                killed = _kill([job.driver, job.jvm])
            case Kind.BACKEND:
                killed = self._kill_backend(fault)
            case Kind.FROZEN:
                killed = self._freeze(job)
            case _:
                killed = 0
        if killed is not None:
            if fault.kind in _POSTMASTERS:
                self._servers.kill_postmaster()
            if fault.kind in _BROKERS:
                self._servers.kill_broker()
            killed += (fault.kind in _POSTMASTERS) + (fault.kind in _BROKERS)
        return killed

    def _kill_backend(self, fault: Fault) -> int | None:
        pids = [pid for (pid,) in self._witness.rows(_BACKENDS)]
        return 1 if pids and self._servers.kill_backend(pids[fault.which % len(pids)]) else None

    def _freeze(self, job: Job) -> int | None:
        driver = self._frozen = job.driver
        if driver is None:
            return None
        driver.suspend()
        return 0

    def _repair(self, fault: Fault) -> None:
        if fault.kind in _POSTMASTERS | _BROKERS:
            time.sleep(fault.down)
        if fault.kind in _POSTMASTERS:
            self._servers.revive_postgres()
        if fault.kind in _BROKERS:
            self._servers.revive_broker()
        if fault.kind is Kind.FROZEN and self._frozen is not None:
            try:
                if not fault.waits:
                    self._witness.rows(_AGE, self._frozen.pid)
                self._second(fault)
            finally:
                self._frozen.resume()
        if fault.kind is Kind.BESIDE:
            self._second(fault)

    def _second(self, fault: Fault) -> None:
        """Run another job for the same batches to its end. It must succeed whatever the first one does."""
        rounds = self._rounds
        batch_ids: list[int] | None
        if fault.same_task:
            run_id, batch_ids, first_try = rounds.run_id, rounds.batch_ids, 10
        else:
            run_id, first_try = f"{rounds.run_id}_beside", 1
            batch_ids = rounds.plan(run_id)
        assert not batch_ids or rounds.write(run_id, batch_ids, first_try=first_try), (
            f"the second job did not succeed: {fault}"
        )

    @contextmanager
    def _moment(self, fault: Fault) -> Iterator[Job | None]:
        """Yield the working job at the fault's moment; yield None if the moment has passed meanwhile."""
        if fault.moment in {START, ANY}:
            job = self._awaited(lambda: self._begun(fault) if fault.moment == START else self._rounds.current)
            time.sleep(fault.seconds)
            yield job
            return
        before = {Moment.READING, Moment.STAGING} if fault.moment == Moment.PUBLISHING else {fault.moment}
        job, batch_id = self._awaited(lambda: self._at(before))
        if fault.moment != Moment.PUBLISHING:
            time.sleep(fault.seconds)
            yield job
            return
        with self._witness.before_publish(batch_id, job.alive) as held:
            if fault.held:
                yield job if held else None
                return
        time.sleep(fault.seconds)
        yield job

    def _begun(self, fault: Fault) -> Job | None:
        """Return a job that has just been started. For faults of the driver, return a job whose driver has just been
        started."""
        job = self._rounds.current
        if job is None or not job.alive():
            return None
        first = job.driver if fault.kind is Kind.DRIVER else job.jvm
        with contextlib.suppress(psutil.NoSuchProcess):
            return job if first is not None and time.time() - first.create_time() < _JUST_S else None
        return None

    def _at(self, moments: Collection[str]) -> tuple[Job, int] | None:
        standing, job = self._witness.standing(self._rounds.pipeline.name), self._rounds.current
        if standing is None or job is None or standing.moment not in moments or not job.is_driven_by(standing.pid):
            return None
        return job, standing.batch_id

    def _awaited(self, look: Callable[[], Result | None]) -> Result:
        deadline = time.monotonic() + TASK_S
        while not (found := look()):
            self._rounds.check()
            assert time.monotonic() < deadline, f"the moment did not come within {TASK_S} s"
            time.sleep(0.02)
        return found


def _kill(processes: Sequence[psutil.Process | None]) -> int | None:
    """Kill the existing ones of these processes, and return their number; None if there was none."""
    killed = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process is not None and process.is_running():
                process.kill()
                killed += 1
    return killed or None
