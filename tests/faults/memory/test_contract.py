"""The ledger in memory behaves as the real one does: the same calls give the same rows and the same refusals."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from asking import execute
from faults import records
from faults.memory.any_order import Moves, MovesOfTheLatest
from faults.memory.both import BothLedgers
from faults.memory.database import MemoryDatabase


@pytest.fixture
def both(ledger, ledger_url):
    """A session with an empty real ledger and an empty one in memory, and an output table in each."""
    execute(ledger, records.TARGET)
    with BothLedgers(ledger_url, MemoryDatabase(), actor="test") as session:
        yield session


def run_all(both, machine):
    steps = settings(deadline=None, derandomize=True, max_examples=30, stateful_step_count=40)
    run_state_machine_as_test(lambda: machine(both), settings=steps)


def test_any_order_of_moves_leaves_everything_accounted_for_and_nothing_jammed(both):
    run_all(both, Moves)


def test_any_order_of_moves_of_a_pipeline_that_wants_the_latest(both):
    run_all(both, MovesOfTheLatest)
