"""Schedules that once failed pass now, whatever their seeds draw today."""

import pytest

from faults.simulation.once_failed import ONCE_FAILED
from faults.simulation.simulating import simulate
from faults.simulation.tally import Tally


@pytest.mark.parametrize("name", ONCE_FAILED)
def test_a_schedule_that_once_failed_passes(name):
    assert simulate(ONCE_FAILED[name], Tally()) == []
