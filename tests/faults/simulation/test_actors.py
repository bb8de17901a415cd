"""Test the simulated process: a fault strikes where it should, and leaves what it would leave of a real process."""

import pytest

from faults.memory import MemoryDatabase, MemoryLedger
from faults.operations import Strike
from faults.simulation.actors import Scheduler, SimulatedProcess
from faults.simulation.tally import Tally
from tideline.errors import RetryableError
from tideline.ledger import reservations
from tideline.ledger.connection import CommitUnknownError

ANY_POINT = 2
"""A point inside the transaction. The first point is the connect; then a transaction of two statements begins."""


class Stage:
    """A ledger, and processes that register a pipeline in it."""

    def __init__(self):
        self.database = MemoryDatabase(self.on_step)
        self.scheduler = Scheduler(self.database, Tally())
        self.log = []

    def on_step(self, session, name):
        if self.scheduler.running is not None:
            self.scheduler.running.point(name, session)

    def start(self, name="ads"):
        def task():
            try:
                with MemoryLedger(self.database, actor=name) as ledger:
                    with ledger.transaction():
                        reservations.lock_pipeline(ledger, name)
                        self.scheduler.running.point("ask")
                        reservations.streams(ledger, name)
                    self.log.append(f"{name} is finished")
            finally:
                self.log.append(f"{name} cleans up")

        return SimulatedProcess(self.scheduler, task, name)

    @property
    def pipelines(self):
        return list(self.database.pipelines)


@pytest.fixture
def stage():
    return Stage()


def test_a_killed_process_leaves_nothing_of_its_open_transaction(stage):
    process = stage.start()
    assert process.strike(Strike.KILL, ANY_POINT) is None
    assert process.ended.killed
    assert (stage.pipelines, stage.log) == ([], ["ads cleans up"])


def test_a_process_frozen_within_a_transaction_has_lost_it_when_it_continues(stage):
    process = stage.start()
    process.strike(Strike.FREEZE, ANY_POINT)
    assert (process.ended, stage.database.holder) == (None, None)
    process.go(10)
    assert isinstance(process.ended.error, RetryableError)
    assert stage.pipelines == []


@pytest.mark.parametrize(("strike", "kept"), [(Strike.COMMIT_KEPT, ["ads"]), (Strike.COMMIT_LOST, [])])
def test_without_the_answer_to_a_commit_its_outcome_is_unknown(stage, strike, kept):
    process = stage.start()
    process.strike(strike, 0)
    process.go(10)
    assert isinstance(process.ended.error, CommitUnknownError)
    assert stage.pipelines == kept


def test_who_needs_the_ledger_lets_a_transaction_that_is_open_come_to_its_end_first(stage):
    first, second = stage.start("ads"), stage.start("clicks")
    first.go(1)
    assert stage.database.holder is not None
    second.go(10)
    assert stage.pipelines == ["ads", "clicks"]
    first.go(10)
    assert stage.log == ["ads is finished", "ads cleans up", "clicks is finished", "clicks cleans up"]


def test_a_fault_that_comes_too_late_says_how_many_points_were_left(stage):
    process = stage.start()
    assert process.strike(Strike.ERROR, 100) == 100 - 4
    assert process.ended.error is None


def test_a_process_stops_only_where_another_one_could_come_in_between(stage):
    process = stage.start()
    assert process.go(0) == 0
    assert stage.database.holder is None
    assert process.go(1) == 0
    assert stage.database.holder is not None
