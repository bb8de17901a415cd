"""Play new schedules of faults for some minutes: of the simulation, of real processes, and faults at any step.

PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.explore --minutes 60

A commit plays fixed schedules; this searches what they miss. It ends at the first failure, prints it with the command that
plays it again, and keeps it in .local/explored.jsonl: the next exploration plays it first, until it passes. A schedule of the
simulation that has failed belongs into `faults/simulation/once_failed.py`, as it is printed.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from faults.drawn_schedules import OUTSIDE, STATEFUL
from faults.processes import process_schedules, steps_table
from faults.processes.matrix import outcomes
from faults.processes.workers import COUNT, Workers
from faults.share import new_first_seed
from faults.simulation.seeds import play, play_side_by_side
from tideline.settings import PROJECT

KEPT = PROJECT / ".local" / "explored.jsonl"
SIMULATION, PROCESSES, STEPS = "simulation", "processes", "steps"
SIMULATED, PLAYED, STRUCK = 300, 6, 6
"""In each round: schedules of the simulation of each kind, schedules of processes, and faults at a step."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A schedule that fails."""

    level: str
    name: str
    """Its seed, or the name of the verb, the step and the fault."""


class Exploration:
    """Plays rounds of schedules.

    Args:
        workers: Those of the real processes.
        side_by_side: Schedules of the simulation at the same time.
    """

    def __init__(self, workers: Workers, side_by_side: int) -> None:
        self._workers = workers
        self._side_by_side = side_by_side
        self.played: Counter[str] = Counter()

    def again(self, kept: Iterable[Failed]) -> Iterator[tuple[Failed, str]]:
        """Play what failed before; yield each with its problem, which is empty if it passes now."""
        for failed in kept:
            match failed.level:
                case "simulation":
                    _, failure = play(int(failed.name), 1)
                    yield failed, str(failure or "")
                case "processes":
                    yield failed, self._workers.submit(process_schedules.play, [int(failed.name)]).result()[1]
                case _:
                    cases = [case for case in steps_table.cases(steps_table.shown()) if case.name == failed.name]
                    yield failed, "".join(self._workers.submit(outcomes, cases).result())

    def round(self, first: int) -> Iterator[tuple[Failed, str]]:
        """Play a round of new schedules; yield those that fail, each with its problem."""
        for kind in (0, OUTSIDE, STATEFUL):
            for tally, failure in play_side_by_side(kind + first, SIMULATED, self._side_by_side):
                self.played[SIMULATION] += tally.schedules
                if failure is not None:
                    yield Failed(SIMULATION, str(failure.seed)), str(failure)
        seeds = range(first, first + PLAYED)
        schedules = [(seed, self._workers.submit(process_schedules.play, [seed])) for seed in seeds]
        cases = Random(first).sample(list(steps_table.cases(steps_table.shown())), STRUCK)
        struck = [(case, self._workers.submit(outcomes, [case])) for case in cases]
        for seed, schedule in schedules:
            _, problem = schedule.result()
            self.played[PROCESSES] += 1
            if problem:
                yield Failed(PROCESSES, str(seed)), problem
        for case, outcome in struck:
            [problem] = outcome.result()
            self.played[STEPS] += 1
            if problem:
                again = f"pytest tests/faults/processes/test_failpoints.py --soak -k {case.name}"
                yield Failed(STEPS, case.name), f"{case.name}: {problem}\nPlay it again: {again}"


def kept() -> list[Failed]:
    """Return what failed in earlier explorations."""
    lines = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    return [Failed(**json.loads(line)) for line in lines]


def keep(failed: Iterable[Failed]) -> None:
    """Write down what fails."""
    KEPT.write_text("".join(json.dumps(asdict(one)) + "\n" for one in failed), encoding="utf-8")


def main() -> int:
    """Explore; return 1 if a schedule fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--first-seed", type=int, help="default: a new one")
    parser.add_argument("--processes", type=int, default=COUNT)
    asked = parser.parse_args()
    first = new_first_seed() if asked.first_seed is None else asked.first_seed
    end = time.monotonic() + asked.minutes * 60
    print(f"new schedules for {asked.minutes:g} minutes; seeds from {first} on", flush=True)
    with tempfile.TemporaryDirectory() as folder, Workers(Path(folder), asked.processes) as workers:
        exploration = Exploration(workers, asked.processes)
        failing = []
        for failed, problem in exploration.again(kept()):
            print(f"{failed.level} {failed.name}, which failed before: {problem or 'passes now'}", flush=True)
            failing += [failed] if problem else []
        keep(failing)
        while not failing and time.monotonic() < end:
            for failed, problem in exploration.round(first):
                print(problem, flush=True)
                keep(failing := [failed])
                break
            first += SIMULATED
            print(", ".join(f"{count} of {level}" for level, count in exploration.played.items()), flush=True)
    if failing:
        print(f"kept in {KEPT.relative_to(PROJECT)}, and played first the next time")
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
