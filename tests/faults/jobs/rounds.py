"""Do Airflow's part: runs of plan, write and advance, each task with its tries, until everything is loaded."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import TypeVar

from faults.jobs.spark_submit import Job
from tideline import flow
from tideline.declaration import pipelines
from tideline.domain.requests import KeptRejects, NewRecords, Request
from tideline.errors import FatalError, NeedsOperatorError, RetryableError
from tideline.kafka.broker import Broker
from tideline.ledger import rewinds
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run

TASK_S = 300
"""Seconds that no task may exceed; a longer one would hang."""
_NEW = NewRecords()
_TRIES = 3
_DELAY_S = 0.2
_LASTING = (FatalError.exit_code, NeedsOperatorError.exit_code)

Result = TypeVar("Result")


class Rounds:
    """The runs of one pipeline.

    Args:
        pipeline: The pipeline; its DAG has the same name.
        variables: The variables of the servers and of the project.
        logs: The folder for the logs of the write tasks.
        master: Spark's master.
        refill: Called when nothing is left to load; returns whether there is more by now.
    """

    def __init__(
        self, pipeline: str, *, variables: Mapping[str, str], logs: Path, master: str, refill: Callable[[], bool]
    ) -> None:
        self.pipeline = pipelines.load_named(pipeline)
        self.jobs: list[Job] = []
        self.codes: Counter[int] = Counter()
        """Number of write tasks by exit code."""
        self.retries: list[str] = []
        """Errors of `plan` and `advance` that were retried."""
        self.n_rewound = 0
        """Batches that were loaded again after a rewind."""
        self.current: Job | None = None
        self.batch_ids: list[int] = []
        """The batches of the current job."""
        self.run_id = ""
        self._variables = dict(variables)
        self._logs = logs
        self._master = master
        self._refill = refill
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="rounds")

    def start(self) -> None:
        """Begin, in a separate thread."""
        self._thread.start()

    def check(self) -> None:
        """Raise the error of that thread, if there is one."""
        if self._failure is not None:
            raise self._failure

    def alive(self) -> bool:
        """Return whether there is still something to load."""
        return self._thread.is_alive()

    def finish(self, seconds: float) -> None:
        """Wait until everything is loaded."""
        self._thread.join(seconds)
        self.check()
        assert not self.alive(), f"not everything was loaded after {seconds:.0f} s"

    def stop(self) -> None:
        """End the runs and their jobs at once."""
        self._stopped.set()
        for job in self.jobs:
            job.end()
        if self._thread.ident is not None:
            self._thread.join(TASK_S)

    def write(self, run_id: str, batch_ids: list[int], *, first_try: int = 1, current: bool = False) -> bool:
        """Run the task `write` of a run, with as many tries as in Airflow; return whether it succeeded."""
        for try_number in range(first_try, first_try + _TRIES):
            job = self.submit(run_id, batch_ids, try_number)
            if current:
                self.current = job
            if self.ended(job) == 0:
                return True
            if current:
                self._wait_for_tries(run_id)
            if self._stopped.wait(_DELAY_S):
                return False
        return False

    def _wait_for_tries(self, run_id: str) -> None:
        """Wait for all tries of the task. Tries of one task follow one another: two that both continued would take
        the batches from each other for ever."""
        for job in self.jobs:
            if job.run_id == run_id:
                job.wait(TASK_S)

    def submit(self, run_id: str, batch_ids: list[int], try_number: int) -> Job:
        """Start one try of a task `write`."""
        job = Job(
            self.pipeline.name,
            batch_ids,
            run_id=run_id,
            try_number=try_number,
            variables=self._variables,
            log=self._logs / f"{len(self.jobs):03}_{run_id}_{try_number}.log",
            master=self._master,
        )
        self.jobs.append(job)
        return job

    def ended(self, job: Job) -> int:
        """Wait for the end of a write task, and return its exit code. No crash may lead to an exit code that Airflow
        does not retry."""
        code = job.wait(TASK_S)
        self.codes[code] += 1
        assert code not in _LASTING, (
            f"exit code {code}, and Airflow would not try again:\n{job.log.read_text()[-3000:]}"
        )
        return code

    def _run(self) -> None:
        try:
            number = 0
            while not self._stopped.is_set():
                number += 1
                if not self._round(f"run_{number}") and not self._refill():
                    return
        except BaseException as error:  # noqa: BLE001 - raised by `check` in the main thread
            self._failure = error

    def redrive(self) -> None:
        """Decode all rejects again, when everything is loaded. They are read from the ledger."""
        assert self._round("redriven", KeptRejects()), "there were no rejects"

    def _round(self, run_id: str, request: Request = _NEW) -> bool:
        """Run one DAG run; return whether it had anything to do."""
        planned = self.plan(run_id, request)
        if planned is None:
            return True
        if not planned:
            return False
        self.run_id, self.batch_ids = run_id, planned
        if self.write(run_id, planned, current=True):
            run = Run(dag_id=self.pipeline.name, run_id=run_id)
            self._tried("advance", lambda ledger: flow.advance(ledger, self.pipeline.name, run))
        return True

    def plan(self, run_id: str, request: Request = _NEW) -> list[int] | None:
        """Run the task `plan` of a run, which also adopts open batches of other runs. Return None if all its tries
        failed."""
        return self._tried("plan", lambda ledger: self._planned(ledger, run_id, request))

    def _planned(self, ledger: Ledger, run_id: str, request: Request) -> list[int]:
        run = Run(dag_id=self.pipeline.name, run_id=run_id)
        return flow.plan(ledger, Broker(self.pipeline.source), self.pipeline, run, request).batch_ids

    def rewind(self, random: Random) -> None:
        """Go back to a batch, or to the beginning, as far as undo is kept. Called between two runs."""
        self._tried("rewind", lambda ledger: self._rewound(ledger, random))

    def _rewound(self, ledger: Ledger, random: Random) -> None:
        with ledger.transaction():
            folded = rewinds.after(ledger, self.pipeline.name, None)
        kept = [batch.batch_id for batch in folded if batch.has_undo]
        if kept:
            boundaries = [batch.batch_id for batch in folded] + [0]
            to_batch = random.choice(boundaries[1 : len(kept) + 1])
            done = flow.rewind(ledger, Broker(self.pipeline.source), self.pipeline, to_batch, reason="a drill")
            self.n_rewound += len(done.undone)

    def _tried(self, task: str, verb: Callable[[Ledger], Result]) -> Result | None:
        """Run a task that Airflow runs in its own process, and return its result. Return None if all its tries
        failed."""
        for _ in range(_TRIES):
            begin = time.monotonic()
            try:
                with Ledger(self._variables["TIDELINE_LEDGER_URL"], actor=f"rounds {task}") as ledger:
                    return verb(ledger)
            except RetryableError as error:
                self.retries.append(f"{task} after {time.monotonic() - begin:.1f} s: {error.problem}")
            if self._stopped.wait(_DELAY_S):
                break
        return None
