"""Two databases for all tests of the checker: in one every batch is finished, in the other some batches are still in progress."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from faults.checker import Remembered
from faults.checker.healthy import Loads, carry_out_everything, stop_halfway, truth
from given_ledger import ledgers
from tideline.declaration.pipelines import Pipeline
from tideline.ledger.connection import Ledger


@dataclass(frozen=True, slots=True)
class Whole:
    """A database in which no law is violated."""

    url: str = field(repr=False)  # holds a password
    truth: Remembered
    pipeline: Pipeline


@pytest.fixture(scope="session")
def quiet(postgres, ledger_template) -> Iterator[Whole]:
    """Provide a ledger in which every kind of operation has happened and no work is left."""
    with ledgers.copy_of(postgres, ledger_template) as url:
        with Ledger(url, actor="test") as ledger:
            loads = Loads(ledger)
            carry_out_everything(loads)
        yield Whole(url, truth(loads.topic), loads.pipeline)


@pytest.fixture(scope="session")
def busy(postgres, ledger_template) -> Iterator[Whole]:
    """Provide the same ledger with batches in progress: planned, being written, failed, and published ahead of the heads."""
    with ledgers.copy_of(postgres, ledger_template) as url:
        with Ledger(url, actor="test") as ledger:
            loads = Loads(ledger)
            carry_out_everything(loads)
            stop_halfway(loads)
        yield Whole(url, truth(loads.topic), loads.pipeline)
