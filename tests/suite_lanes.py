"""Declare the suites, and the lanes in which they run."""

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Suite:
    """One process of tests."""

    name: str
    tests: tuple[str, ...] = ()
    """Arguments of pytest; empty where `command` is set."""
    command: tuple[str, ...] = ()
    nice: int = 0

    def argv(self, report: Path) -> list[str]:
        """Return its command line; pytest writes its report to the file."""
        if self.command:
            return list(self.command)
        # A test that has hung for a quarter of an hour prints the stack of each thread, and ends its suite.
        limits = ["-o", "faulthandler_timeout=900", "-o", "faulthandler_exit_on_timeout=true"]
        return [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *limits, *self.tests]


_SECOND, _LAST = 3, 6
"""Niceness. Suites with Airflow's scheduler have precedence: it takes a third of a processor for as long as it runs, and the longer a schedule of
the stack takes, the more runs there are in it.

Beside another job that keeps all processors busy, niceness 6 still gets a fifth of each. Niceness 19 would get a hundredth, and never end.
"""
_INTEGRATION = "tests/integration"
_LATER = tuple(f"{_INTEGRATION}/{room}" for room in ("commands", "kafka", "sinks", "state"))
"""Rooms of the integration tests that are in other suites than the rest."""
_ROOMS = ("checker", "memory", "bad_input", "mutants", "processes", "simulation")
# Each suite has servers and a Spark of its own, which cost as much as some hundred tests: so there are few, and some of two folders.
LANES: tuple[tuple[Suite, ...], ...] = (
    # Airflow's tasks start one after the other, and the stack's schedule waits for what was killed to come back: this lane waits half of the time.
    (
        Suite("stack", ("tests/faults/stack",)),
        Suite("e2e", ("tests/e2e",)),
        Suite("page", ("tests/page",), nice=_SECOND),
    ),
    (
        Suite("integration", (_INTEGRATION, *(f"--ignore={room}" for room in _LATER)), nice=_SECOND),
        Suite("jobs", ("tests/faults/jobs",), nice=_SECOND),
    ),
    (
        Suite("style", command=("make", "--no-print-directory", "style")),
        Suite("unit", ("tests/unit", "tests/dags", "include/pipelines"), nice=_SECOND),
        Suite("commands", (f"{_INTEGRATION}/commands", f"{_INTEGRATION}/state"), nice=_SECOND),
    ),
    # Its producers and drivers wait for time-outs of the brokers.
    (Suite("kafka", (f"{_INTEGRATION}/kafka", f"{_INTEGRATION}/sinks"), nice=_SECOND),),
    # Schedules of faults never wait: they use the processor time that the other lanes leave, a fifth.
    (Suite("schedules", ("--side-by-side", "2", *(f"tests/faults/{room}" for room in _ROOMS)), nice=_LAST),),
)
"""Lanes run in parallel, the suites of a lane one after the other. Each lane would take about as long as the others."""
