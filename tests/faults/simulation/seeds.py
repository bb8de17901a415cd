"""Many schedules, one seed after the other, in several Python processes; the first one that fails is made small and told."""

import gc
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from faults.drawn_schedules import Schedule, schedule
from faults.simulation.shrinking import shrink, told
from faults.simulation.simulating import Problem, simulate
from faults.simulation.tally import Tally

AT_ONCE = 250
"""Seeds that one process is given at a time."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A schedule that has broken something."""

    seed: int
    problems: list[Problem]
    small: Schedule

    def __str__(self) -> str:
        found = "\n".join(map(str, self.problems[:5]))
        return (
            f"seed {self.seed} of the simulation fails; {len(self.small.operations)} operations of it are enough:\n{told(self.small)}\n{found}\n"
            f"Play it again: PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.simulation --seed {self.seed}"
        )


def play(first: int, count: int) -> tuple[Tally, Failure | None]:
    """Schedules of seeds that count up, until one fails."""
    tally = Tally()
    gc.disable()  # a tenth of the time; what is left of a schedule is small
    try:
        for seed in range(first, first + count):
            if problems := simulate(schedule(seed), tally):
                return tally, explain(seed, problems[0].law)
    finally:
        gc.enable()
    return tally, None


def explain(seed: int, law: str) -> Failure:
    """What is left of a schedule that still breaks the same law."""
    small = shrink(schedule(seed), lambda tried: any(found.law == law for found in simulate(tried, Tally())))
    return Failure(seed, simulate(small, Tally()), small)


def play_side_by_side(first: int, count: int, processes: int) -> Iterator[tuple[Tally, Failure | None]]:
    """The same, a part at a time; ends with the first part that has failed."""
    # Not forked: whoever calls may have threads.
    pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))
    with pool:
        parts = [pool.submit(play, at, min(AT_ONCE, first + count - at)) for at in range(first, first + count, AT_ONCE)]
        try:
            for part in as_completed(parts):
                yield part.result()
                if part.result()[1] is not None:
                    return
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
