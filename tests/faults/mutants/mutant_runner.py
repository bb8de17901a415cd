"""Plays schedules and runs tests against a copy of the product, in a new process that has not imported the product yet."""

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from servers import shared_servers


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of some schedules."""

    seed: int | None = None
    """The schedule that failed."""
    found: str = ""
    """The problem in it; empty where all have passed."""


class WrongCopyError(Exception):
    """Another copy of the product was imported than the one under test."""


def simulated(tree: Path, seeds: Sequence[int]) -> Verdict:
    """Play schedules of the simulation until one fails.

    Raises:
        WrongCopyError: This process has imported another copy already.
    """
    _take(tree)
    simulate = import_module("faults.simulation.simulating").simulate
    drawn = import_module("faults.drawn_schedules").schedule
    tally = import_module("faults.simulation.tally").Tally()
    for seed in seeds:
        if problems := simulate(drawn(seed), tally):
            return Verdict(seed, str(problems[0]))
    return Verdict()


def with_processes(tree: Path, seeds: Sequence[int]) -> Verdict:
    """Play schedules with real processes on a real server until one fails.

    Raises:
        WrongCopyError: This process has imported another copy already.
    """
    _take(tree)
    ground = import_module("faults.processes.ground").ground
    play = import_module("faults.processes.process_schedules").play
    with tempfile.TemporaryDirectory() as folder, ground(Path(folder)) as place:
        for seed in seeds:
            _, found = play(place, [seed])
            if found:
                return Verdict(seed, found)
    return Verdict()


def with_tests(tree: Path, tests: str, servers: str) -> tuple[int, str]:
    """Run tests until one fails; return pytest's exit code and output.

    Args:
        tree: The copy.
        tests: A file, or one test of it.
        servers: Those that the tests share, as `shared_servers.described` gives them.

    Raises:
        WrongCopyError: This process has imported another copy already.
    """
    # Processes that the tests start use the same copy.
    os.environ |= {
        "PYTHONPATH": f"{tree / 'include'}{os.pathsep}{tree}",
        "PYTEST_ADDOPTS": "",
        shared_servers.VARIABLE: servers,
    }
    _take(tree)
    printed = tree / "printed.log"
    with printed.open("wb") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    # Not the arguments of functions, for among them are addresses with passwords: what is printed stays in a file.
    code = pytest.main(["-q", "-x", "--tb=short", "-p", "no:cacheprovider", tests])
    sys.stdout.flush()  # into a file it is buffered, and what is read next would lack the end
    return int(code), printed.read_text(errors="replace")


def _take(tree: Path) -> None:
    """Make this process import the product from there."""
    sys.path[:0] = [str(tree / "include"), str(tree)]
    for name in ("tideline", "tideline.spark_jobs"):
        found = import_module(name).__file__ or ""
        if not Path(found).is_relative_to(tree):
            raise WrongCopyError(f"{name} comes from {found}, and not from {tree}")
