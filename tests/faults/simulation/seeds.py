"""Play many schedules, one seed after the other, in several Python processes. The first failing schedule is shrunk
and printed."""

import gc
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from faults.drawn_schedules import schedule
from faults.schedules import Schedule
from faults.simulation.shrinking import as_python, shrink
from faults.simulation.simulating import Problem, simulate
from faults.simulation.tally import Tally

AT_ONCE = 250
"""Seeds in one work package of a process."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A schedule that has violated something."""

    seed: int
    problems: list[Problem]
    small: Schedule

    def __str__(self) -> str:
        found = "\n".join(map(str, self.problems[:5]))
        return (
            f"seed {self.seed} of the simulation fails; {len(self.small.operations)} operations of it are enough:\n{as_python(self.small)}\n{found}\n"
            f"Play it again: PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.simulation --seed {self.seed}"
        )


def play(first: int, count: int) -> tuple[Tally, Failure | None]:
    """Play the schedules of `count` seeds from `first` on, until one fails."""
    tally = Tally()
    gc.disable()  # saves a tenth of the time; the garbage of one schedule is small
    try:
        for seed in range(first, first + count):
            if problems := simulate(schedule(seed), tally):
                return tally, explain(seed, problems[0].law)
    finally:
        gc.enable()
    return tally, None


def explain(seed: int, law: str) -> Failure:
    """Return the failure with the schedule shrunk as far as it still breaks the same law."""
    small = shrink(schedule(seed), lambda tried: any(found.law == law for found in simulate(tried, Tally())))
    return Failure(seed, simulate(small, Tally()), small)


def play_side_by_side(first: int, count: int, processes: int) -> Iterator[tuple[Tally, Failure | None]]:
    """Play the schedules in several processes and yield the result of each part; end after the first part with a
    failure."""
    # Not forked: the caller may have threads.
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
