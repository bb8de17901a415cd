"""Fixtures that all levels share: the servers, and the numbers of schedules to play."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults.share import COMMIT, FIRST_SEED, SOAK, Share, new_first_seed
from servers.fixtures import (
    admin,
    broker,
    certificates,
    ledger,
    ledger_template,
    ledger_url,
    loading,
    postgres,
    spark,
    topic,
)

__all__ = [
    "admin",
    "broker",
    "certificates",
    "ledger",
    "ledger_template",
    "ledger_url",
    "loading",
    "postgres",
    "spark",
    "topic",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the fault tests."""
    group = parser.getgroup("faults")
    group.addoption("--soak", action="store_true", help="play the large numbers of schedules of a nightly run")
    group.addoption(
        "--first-seed",
        type=int,
        help="seed of the first schedule of each level; the others count up. Default: a fixed one, and with --soak a new one",
    )
    group.addoption(
        "--side-by-side",
        type=int,
        default=2,
        metavar="N",
        help="number of schedules played at the same time; default: 2",
    )
    group.addoption("--tally", type=Path, metavar="FILE", help="append counts and durations to FILE, as lines of JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the first seed: a commit answers the same twice, and each night plays schedules that no night has played."""
    if config.option.first_seed is None:
        config.option.first_seed = new_first_seed() if config.option.soak else FIRST_SEED


def pytest_sessionstart(session: pytest.Session) -> None:
    """Print the first seed, even with `pytest -q`."""
    _say_first_seed(session.config)


def pytest_terminal_summary(config: pytest.Config) -> None:
    """Print the first seed again, next to the failures."""
    _say_first_seed(config)


def _say_first_seed(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        first = config.getoption("--first-seed")
        reporter.write_line(f"seeds from {first} on; to play them again: --first-seed {first}")


@pytest.fixture(scope="session")
def share(request: pytest.FixtureRequest) -> Share:
    """Return the numbers of schedules for this run: nightly with `--soak`, else those of a commit."""
    return SOAK if request.config.getoption("--soak") else COMMIT


@pytest.fixture(scope="session")
def first_seed(request: pytest.FixtureRequest) -> int:
    """Return the first seed of each level."""
    return request.config.getoption("--first-seed")


@pytest.fixture(scope="session")
def side_by_side(request: pytest.FixtureRequest) -> int:
    """Return the number of schedules that are played at the same time."""
    return request.config.getoption("--side-by-side")


@pytest.fixture(scope="session")
def tally(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that appends the counts or durations of a level to the tally file: `tally("stack", seed=7,
    ...)`. It does nothing without `--tally`."""
    file: Path | None = request.config.getoption("--tally")

    def keep(level: str, **found: Any) -> None:
        if file is not None:
            with file.open("a") as lines:
                lines.write(json.dumps({"level": level, **found}, default=str) + "\n")

    return keep
