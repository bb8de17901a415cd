"""Two databases for all tests of the checker: everything is through, or half of it is under way."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

import ledgers
from faults.checker import Remembered
from faults.checker.healthy import Loads, live_through, stop_halfway, truth
from tideline.declaration.pipelines import Pipeline
from tideline.ledger.connection import Ledger


@dataclass(frozen=True, slots=True)
class Whole:
    """A database with nothing wrong in it."""

    url: str = field(repr=False)  # holds a password
    truth: Remembered
    pipeline: Pipeline


@pytest.fixture(scope="session")
def quiet(postgres, ledger_template) -> Iterator[Whole]:
    """Everything has happened, and nothing is left to do."""
    with ledgers.copy_of(postgres, ledger_template) as url:
        with Ledger(url, actor="test") as ledger:
            loads = Loads(ledger)
            live_through(loads)
        yield Whole(url, truth(loads.topic), loads.pipeline)


@pytest.fixture(scope="session")
def busy(postgres, ledger_template) -> Iterator[Whole]:
    """The same, and more under way: planned, being written, failed, and published ahead of the heads."""
    with ledgers.copy_of(postgres, ledger_template) as url:
        with Ledger(url, actor="test") as ledger:
            loads = Loads(ledger)
            live_through(loads)
            stop_halfway(loads)
        yield Whole(url, truth(loads.topic), loads.pipeline)
