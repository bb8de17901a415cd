"""The servers that all levels share, and how much of each level is to be run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults.first_seed import COMMIT as OF_THE_COMMIT
from faults.first_seed import first_seed as seed_of
from faults.share import COMMIT, SOAK, Share
from servers import admin, broker, ledger, ledger_template, ledger_url, loading, postgres, spark, topic

__all__ = ["admin", "broker", "ledger", "ledger_template", "ledger_url", "loading", "postgres", "spark", "topic"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """What a night adds to a commit."""
    group = parser.getgroup("faults")
    group.addoption("--soak", action="store_true", help="run as many schedules as a night has time for")
    group.addoption(
        "--first-seed",
        type=seed_of,
        default=OF_THE_COMMIT,
        help="seed of the first schedule of each level, a number or `commit`; the others count up",
    )
    group.addoption(
        "--side-by-side",
        type=int,
        default=2,
        metavar="N",
        help="play so many schedules at the same time: two by default",
    )
    group.addoption("--tally", type=Path, metavar="FILE", help="append what was counted and timed, a line of JSON each")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say which schedules are played, also where pytest is asked to be quiet."""
    _say_first_seed(session.config)


def pytest_terminal_summary(config: pytest.Config) -> None:
    """Say it again where failures are told."""
    _say_first_seed(config)


def _say_first_seed(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        first = config.getoption("--first-seed")
        reporter.write_line(f"seeds from {first} on; to play them again: --first-seed {first}")


@pytest.fixture(scope="session")
def share(request: pytest.FixtureRequest) -> Share:
    """How much of each level is to be run."""
    return SOAK if request.config.getoption("--soak") else COMMIT


@pytest.fixture(scope="session")
def first_seed(request: pytest.FixtureRequest) -> int:
    """Where the seeds of each level begin."""
    return request.config.getoption("--first-seed")


@pytest.fixture(scope="session")
def side_by_side(request: pytest.FixtureRequest) -> int:
    """How many schedules are played at the same time."""
    return request.config.getoption("--side-by-side")


@pytest.fixture(scope="session")
def tally(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Keep what a level has counted or timed: `tally("stack", seed=7, ...)`. Forgotten where nobody has asked for it."""
    file: Path | None = request.config.getoption("--tally")

    def keep(level: str, **found: Any) -> None:
        if file is not None:
            with file.open("a") as lines:
                lines.write(json.dumps({"level": level, **found}, default=str) + "\n")

    return keep
