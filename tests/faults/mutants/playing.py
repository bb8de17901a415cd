"""Plays schedules of the simulation against a copy of the product, in a new process that has imported nothing of the product yet."""

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of some schedules."""

    schedules: int
    """How many were played."""
    law: str = ""
    """The one that the last of them has broken; nothing where all have passed."""
    found: str = ""
    """In words."""


class WrongCopyError(Exception):
    """Another copy of the product was imported than the one that was to be tried."""


def simulated(tree: Path, first: int, count: int) -> Verdict:
    """Schedules of seeds that count up, until one fails.

    Raises:
        WrongCopyError: This process has imported another copy already.
    """
    _take(tree)
    simulate = import_module("faults.simulation.simulating").simulate
    drawn = import_module("faults.drawing").schedule
    tally = import_module("faults.simulation.tally").Tally()
    for number in range(1, count + 1):
        if problems := simulate(drawn(first + number - 1), tally):
            return Verdict(number, problems[0].law, str(problems[0]))
    return Verdict(count)


def _take(tree: Path) -> None:
    """Let this process import the product from there."""
    sys.path[:0] = [str(tree / "include"), str(tree)]
    for name in ("tideline", "spark_jobs"):
        found = import_module(name).__file__ or ""
        if not Path(found).is_relative_to(tree):
            raise WrongCopyError(f"{name} comes from {found}, and not from {tree}")
