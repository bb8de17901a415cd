"""Play one schedule: a pipeline on real servers, with faults drawn from a seed. Afterwards every record must be
accounted for."""

import os
import shutil
import time
from collections import Counter
from pathlib import Path
from random import Random

from confluent_kafka.admin import AdminClient

from faults.checker import watch
from faults.checker.facts import Violation
from faults.jobs import order_producer, orders, read_back
from faults.jobs.crashing_servers import Servers
from faults.jobs.drawn_faults import Kind, draw
from faults.jobs.figures import Figures, recoveries
from faults.jobs.job_faults import Striker
from faults.jobs.job_verdict import doctors, verdict
from faults.jobs.order_outputs import IN_TURN, Output, Sink
from faults.jobs.order_producer import fill_in_transactions
from faults.jobs.rounds import TASK_S, Rounds
from faults.jobs.sent_letters import differences
from faults.jobs.write_progress import PUBLISHED, Witness
from given_topics import topics
from tideline import flow
from tideline.ledger.connection import Ledger

FAULTS = 4
RECORDS, MORE = 17_000, 4_000
"""Records at the beginning, and records added each time that everything is loaded before the last fault."""
_LIMITS = {"batch_records": 3000, "run_batches": 6, "split_records": 500}
_ORPHANS_END_S = 60
_LOOK_S = 0.5
"""Seconds between two checks of the laws that must hold at every moment."""
_STAGED = """
SELECT tablename FROM pg_tables JOIN tideline.attempt ON starts_with(tablename, 'attempt_' || replace(attempt.attempt::text, '-', ''))
JOIN tideline.batch USING (batch_id) WHERE schemaname = 'tideline_staging' AND pipeline = %s
UNION ALL SELECT 'a count of attempt ' || attempt_id FROM tideline.staged_count
JOIN tideline.attempt USING (attempt_id) JOIN tideline.batch USING (batch_id) WHERE pipeline = %s"""


class Schedule:
    """The schedule of one seed.

    Args:
        seed: Determines everything except the timing of the machine.
        servers: Running servers; a schedule uses its own topic, pipeline and table.
        folder: For logs; deleted if the schedule ends well.
    """

    def __init__(self, seed: int, servers: Servers, folder: Path) -> None:
        self.seed = seed
        self.folder = folder
        self._servers = servers
        self._rng = rng = Random(seed)
        kinds = list(Kind)
        chosen = [kinds[(seed * FAULTS + number) % len(kinds)] for number in range(FAULTS)]
        rng.shuffle(chosen)
        self._name = f"jobs_{seed}_{os.getpid()}"
        self.output = Output(
            pipeline=self._name,
            sink=IN_TURN[seed % len(IN_TURN)],
            lakes=servers.folder / "lakes",
            has_letters=rng.random() < 1 / 3,
        )
        self.faults = [draw(rng, kind, self.output) for kind in chosen]
        drawn = rng.choice(("records", "frame"))
        self.transform = "processor" if self.output.sink is Sink.FOLDED else drawn
        self.partitions = rng.randint(2, 4)
        self.has_transactions = rng.random() < 1 / 3
        self.master = rng.choice(("local[2]", "local[2,4]"))
        self._left = len(self.faults)

    def __str__(self) -> str:
        topic = f"{self.partitions} partitions{' with transactions' if self.has_transactions else ''}"
        letters = " and letters" if self.output.has_letters else ""
        made = f"{self.transform} on {self.master}, {topic}, into a {self.output.sink}{letters}"
        return f"seed {self.seed}: {made}: {'; '.join(map(str, self.faults))}"

    def play(self) -> Figures:
        """Play the schedule and return its figures; raise AssertionError if a law is violated."""
        rounds = self._begin()
        witness = Witness(self._servers.url)
        try:
            rounds.start()
            with watch(self._servers.url, self._name, self.output.watched, every=_LOOK_S) as watched:
                figures = self._strike(rounds, witness)
                rounds.finish(2 * TASK_S)
            _check_processes(rounds)
            _check_staging(self._servers, rounds, witness)
            broken, figures.records = verdict(self._servers.url, self._servers.bootstrap, self.output)
            _check_laws([*watched.violations, *broken])
            said = doctors(self._servers.url, rounds.pipeline)
            assert not said, said
            if self.output.has_letters:
                different = differences(self.output, self._servers.url, self._servers.bootstrap)
                assert not different, different
            figures.commits += Counter(witness.commits(self._name))
            published = [at for (at,) in witness.rows(PUBLISHED, self._name)]
        finally:
            rounds.stop()
            witness.close()
        figures.codes = rounds.codes
        figures.rewound = rounds.n_rewound
        figures.recovery_s = recoveries(figures.recovery_s, published)
        shutil.rmtree(self.folder)
        return figures

    def _begin(self) -> Rounds:
        """Fill the topic, declare the pipeline, and return its runs."""
        servers, gaps = self._servers, "allowed" if self.has_transactions else "refused"
        topics.created(AdminClient({"bootstrap.servers": servers.bootstrap}), self._name, partitions=self.partitions)
        read_back.create_topics(self.output, servers.bootstrap)
        fill = fill_in_transactions if self.has_transactions else order_producer.fill
        fill(servers.bootstrap, self._name, orders.records(self._rng, RECORDS), self.partitions)
        folder = servers.pipelines / self._name
        orders.declare(folder, self._name, self.output, transform=self.transform, gaps=gaps, limits=_LIMITS)
        self._rounds = Rounds(
            self._name, variables=servers.variables(), logs=self.folder, master=self.master, refill=self._refill
        )
        return self._rounds

    def _refill(self) -> bool:
        """Send more records while there are faults that need a working job; return whether it did. What is folded goes
        back before that, so that much of it is loaded again."""
        if not self._left:
            return False
        if self.output.sink is Sink.FOLDED:
            self._rounds.rewind(self._rng)
        order_producer.fill(self._servers.bootstrap, self._name, orders.records(self._rng, MORE), self.partitions)
        return True

    def _strike(self, rounds: Rounds, witness: Witness) -> Figures:
        """Carry out all faults in order. The figures hold the time of each fault's end instead of a recovery time."""
        striker = Striker(self._servers, rounds, witness)
        figures = Figures(schedules=1, sinks=Counter([self.output.sink]))
        for fault in self.faults:
            figures.count(fault, striker.strike(fault))
            self._left -= 1
        return figures


def _check_laws(broken: list[Violation]) -> None:
    assert not broken, "\n".join(map(str, broken))


def _check_processes(rounds: Rounds) -> None:
    """Check that what a killed job left running ends by itself."""
    deadline = time.monotonic() + _ORPHANS_END_S
    while left := [process for job in rounds.jobs for process in job.left_behind()]:
        assert time.monotonic() < deadline, f"still there after {_ORPHANS_END_S} s: {left}"
        time.sleep(0.2)


def _check_staging(servers: Servers, rounds: Rounds, witness: Witness) -> None:
    """Check that nothing is staged any more after upkeep, whatever was killed while staging."""
    name = rounds.pipeline.name
    with Ledger(servers.url, actor="upkeep") as ledger:
        flow.upkeep(ledger, rounds.pipeline)
    left = witness.rows(_STAGED, name, name)
    assert not left, f"still staged: {left}"
