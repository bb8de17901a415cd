"""Carry out the faults of a schedule: wait for their moments, kill or freeze, and repair."""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import psutil

from faults.jobs.crashing_servers import Servers
from faults.jobs.drawn_faults import ANY, START, Fault, Kind
from faults.jobs.rounds import TASK_S, Rounds
from faults.jobs.spark_submit import Job
from faults.jobs.write_progress import Moment, Witness

Result = TypeVar("Result")

# Mostly, the heartbeat of a frozen driver is set back by a minute, so that the test need not wait until it is too old.
_AGE = "UPDATE tideline.attempt SET heartbeat_at = heartbeat_at - interval '61 s' WHERE pid = %s AND ended_at IS NULL"
_BACKENDS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND application_name NOT IN ('witness', 'watch') ORDER BY pid"""


_POSTMASTERS = {Kind.POSTMASTER, Kind.EVERYTHING}
_BROKERS = {Kind.BROKER, Kind.EVERYTHING}
_JUST_S = 2
_LOOK_S, _LOOK_OFTEN_S = 0.02, 0.002
"""Seconds between two looks for a moment. A commit to an outside sink may take only some hundredths of a second."""
_STAGED = {Moment.READING, Moment.STAGING}
"""Moments before the first transaction that locks the batch."""


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
        if fault.moment in {Moment.PUBLISHING, Moment.SETTLING}:
            with self._before_lock(fault) as job:
                yield job
            return
        if fault.moment in {START, ANY}:
            job = self._awaited(lambda: self._begun(fault) if fault.moment == START else self._rounds.current)
        elif fault.moment == Moment.COMMITTING:
            job, _ = self._intended()
        else:
            job, _ = self._awaited(lambda: self._at({fault.moment}))
        time.sleep(fault.seconds)
        yield job

    @contextmanager
    def _before_lock(self, fault: Fault) -> Iterator[Job | None]:
        """Yield the working job when its transaction waits for the lock of the batch, or a moment later."""
        settles = fault.moment == Moment.SETTLING
        job, batch_id = self._intended() if settles else self._awaited(lambda: self._at(_STAGED))
        may_come = partial(self._at, {Moment.COMMITTING}) if settles else lambda: job and job.alive()
        with self._witness.before_publish(batch_id, may_come) as waiting:
            if not waiting or fault.held or fault.kind is Kind.FROZEN:
                yield job if waiting else None
                if fault.kind is Kind.FROZEN:  # with the lock it would only keep the other job waiting
                    self._witness.disconnect(waiting)
                return
        time.sleep(fault.seconds)
        yield job

    def _intended(self) -> tuple[Job | None, int]:
        """Wait for an attempt that has just stored its intent. Return None with its batch if it has ended on the way.

        The lock holds it back, so that no frequent look is needed before.
        """
        job, batch_id = self._awaited(lambda: self._at(_STAGED))
        with self._witness.before_publish(batch_id, job.alive):
            pass
        while self._at(_STAGED):
            time.sleep(_LOOK_OFTEN_S)
        return (job if self._at({Moment.COMMITTING}) else None), batch_id

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
            time.sleep(_LOOK_S)
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
