"""One schedule: a pipeline on real servers, faults drawn from a seed, and after them everything accounted for."""

import os
import shutil
import time
from pathlib import Path
from random import Random

from confluent_kafka.admin import AdminClient

import topics
from faults import checker
from faults.jobs import filling, orders
from faults.jobs.crashing import Servers
from faults.jobs.figures import Figures, recoveries
from faults.jobs.filling import fill_in_transactions
from faults.jobs.moments import PUBLISHED, Witness
from faults.jobs.rounds import TASK_S, Rounds
from faults.jobs.striking import Kind, Striker, draw
from faults.jobs.truth import KafkaTruth
from tideline import flow
from tideline.ledger.connection import Ledger

FAULTS = 4
RECORDS, MORE = 17_000, 4_000
"""At the beginning, and each time that everything is loaded before the faults are through."""
_LIMITS = {"batch_records": 3000, "run_batches": 6, "split_records": 500}
_ORPHANS_END_S = 60
_STAGED = """
SELECT tablename FROM pg_tables JOIN tideline.batch ON tablename LIKE format('batch\\_%%s\\_attempt\\_%%%%', batch_id)
WHERE schemaname = 'tideline_staging' AND pipeline = %s
UNION ALL SELECT 'a count of attempt ' || attempt_id FROM tideline.staged_count
JOIN tideline.attempt USING (attempt_id) JOIN tideline.batch USING (batch_id) WHERE pipeline = %s"""


class Schedule:
    """One seed's schedule.

    Args:
        seed: Decides everything but the machine's own timing.
        servers: Running servers; a schedule takes its own topic, pipeline and table.
        folder: For logs; it is gone when the schedule ends well.
    """

    def __init__(self, seed: int, servers: Servers, folder: Path) -> None:
        self.seed = seed
        self.folder = folder
        self._servers = servers
        self._rng = rng = Random(seed)
        kinds = list(Kind)
        chosen = [kinds[(seed * FAULTS + number) % len(kinds)] for number in range(FAULTS)]
        rng.shuffle(chosen)
        self.faults = [draw(rng, kind) for kind in chosen]
        self.transform = rng.choice(("records", "frame"))
        self.partitions = rng.randint(2, 4)
        self.has_transactions = rng.random() < 1 / 3
        self.master = rng.choice(("local[2]", "local[2,4]"))
        self._left = len(self.faults)

    def __str__(self) -> str:
        topic = f"{self.partitions} partitions{' with transactions' if self.has_transactions else ''}"
        return f"seed {self.seed}: {self.transform} on {self.master}, {topic}: {'; '.join(map(str, self.faults))}"

    def play(self) -> Figures:
        """Run it; raises where a law does not hold."""
        name = f"jobs_{self.seed}_{os.getpid()}"
        admin = AdminClient({"bootstrap.servers": self._servers.bootstrap})
        self._topic = topics.created(admin, name, partitions=self.partitions)
        fill = fill_in_transactions if self.has_transactions else filling.fill
        fill(self._servers.bootstrap, self._topic, orders.records(self._rng, RECORDS), self.partitions)
        variables = self._servers.variables()
        os.environ.update(variables)
        folder = Path(variables["TIDELINE_PIPELINES"]) / name
        gaps = "allowed" if self.has_transactions else "refused"
        orders.declare(folder, self._topic, transform=self.transform, gaps=gaps, limits=_LIMITS)
        rounds = Rounds(name, variables=variables, logs=self.folder, master=self.master, refill=self._refill)
        witness = Witness(self._servers.url)
        try:
            rounds.start()
            figures = self._strike(rounds, witness)
            rounds.finish(2 * TASK_S)
            _check_processes(rounds)
            figures.codes = rounds.codes
            figures.records = self._check(name)
            _check_staging(rounds, witness)
            published = [at for (at,) in witness.rows(PUBLISHED, name)]
        finally:
            rounds.stop()
            witness.close()
        figures.recovery_s = recoveries(figures.recovery_s, published)
        shutil.rmtree(self.folder)
        return figures

    def _refill(self) -> bool:
        """More records, while there are faults that need somebody at work."""
        if not self._left:
            return False
        filling.fill(self._servers.bootstrap, self._topic, orders.records(self._rng, MORE), self.partitions)
        return True

    def _strike(self, rounds: Rounds, witness: Witness) -> Figures:
        """All faults, one after the other; the figures have the time of each end instead of a recovery."""
        striker = Striker(self._servers, rounds, witness)
        figures = Figures(schedules=1)
        for fault in self.faults:
            figures.count(fault, striker.strike(fault))
            self._left -= 1
        return figures

    def _check(self, name: str) -> int:
        """Compare the records with what is in Postgres; how many there were."""
        truth = KafkaTruth(self._servers.bootstrap)
        with checker.read(self._servers.url, name, orders.table_of(name), orders.COLUMNS) as found:
            broken = checker.violations(found, truth, quiet=True)
        assert not broken, "\n".join(map(str, broken))
        return truth.shown


def _check_processes(rounds: Rounds) -> None:
    """What a killed job has left behind ends by itself."""
    deadline = time.monotonic() + _ORPHANS_END_S
    while left := [process for job in rounds.jobs for process in job.left_behind()]:
        assert time.monotonic() < deadline, f"still there after {_ORPHANS_END_S} s: {left}"
        time.sleep(0.2)


def _check_staging(rounds: Rounds, witness: Witness) -> None:
    """After upkeep nothing is staged any more, whatever was killed in the midst of staging."""
    name = rounds.pipeline.name
    with Ledger(os.environ["TIDELINE_LEDGER_URL"], actor="upkeep") as ledger:
        flow.upkeep(ledger, rounds.pipeline)
    left = witness.rows(_STAGED, name, name)
    assert not left, f"still staged: {left}"
