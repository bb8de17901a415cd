"""How a schedule ends: faults are over, whoever was frozen finishes, people decide what is to be decided, and new runs load the rest."""

from collections.abc import Sequence
from typing import Protocol

from faults.actions import Abandon, AcceptLoss, AdoptTopic, Task
from faults.operations import Heal, PassTime, Thaw
from faults.schedule_runner import MANY, DagRun, Play
from tideline.domain.requests import NewRecords, OneBatch
from windows import at

SCHEDULED = NewRecords(until=at(100_000))
"""A run of the schedule, long after the last record: what bears a later time than that must not be in anybody's way."""
ALONE = 3
"""Runs after which all that needs no decision is loaded: one may find that streams are inconsistent, the next one plans without them."""
ROUNDS = 12
_PATIENCE = 20
"""Times that everybody may wait for somebody else until the time of a heartbeat is over."""


class JammedError(Exception):
    """Healing leads to nothing."""


class Healable(Protocol):
    """What healing has to know of a ledger."""

    def failed_batches(self) -> Sequence[int]:
        """Batches that a run could not write."""

    def asked_for(self) -> Sequence[tuple[str, int]]:
        """Open batches, each with its pipeline, that no run for new records takes: people have asked for them."""

    def has_stopped(self) -> bool:
        """Whether a stream waits for a person."""


def heal(play: Play, ledger: Healable) -> int:
    """Until a run finds nothing left to do; how many runs it took.

    Raises:
        JammedError: That never comes.
    """
    end_faults(play)
    return load_alone(play) + decide(play, ledger)


def end_faults(play: Play) -> None:
    """Kafka and the declaration are whole again, and whoever still lives comes to an end.

    Raises:
        JammedError: They wait for each other.
    """
    play.do(Heal())
    while play.frozen:
        play.do(Thaw(0))
    finish(play)


def load_alone(play: Play) -> int:
    """What runs load when nobody decides anything; how many there were."""
    for number in range(1, ALONE + 1):
        if _found_nothing(play, SCHEDULED):
            return number
    return ALONE


def decide(play: Play, ledger: Healable) -> int:
    """People decide what is to be decided, and runs load the rest; how many there were.

    Raises:
        JammedError: After many of them there is still something to load.
    """
    for number in range(1, ROUNDS + 1):
        commands: list[Task] = [Abandon(batch_id) for batch_id in ledger.failed_batches()]
        if ledger.has_stopped():
            commands += [verb(pipeline=name) for name in play.stage.pipelines() for verb in (AdoptTopic, AcceptLoss)]
        for command in commands:
            play.command(command)
            finish(play)
        for name, batch_id in ledger.asked_for():
            play.start(OneBatch(batch_id=batch_id), name)
            finish(play)
        if _found_nothing(play, NewRecords()) and not ledger.failed_batches():
            return number
    raise JammedError(f"after {ROUNDS} rounds of decisions and runs there is still something to load")


def _found_nothing(play: Play, request: NewRecords) -> bool:
    """Run each pipeline once; whether that was the end of all of them."""
    runs = []
    for name in play.stage.pipelines():
        runs.append(play.start(request, name))
        finish(play)
    return all(map(found_nothing, runs))


def finish(play: Play) -> None:
    """Let everybody go on until nobody is left.

    Raises:
        JammedError: They wait for each other.
    """
    for _ in range(_PATIENCE):
        for actor in list(play.actors):
            play.go(actor, MANY)
        if not play.actors:
            return
        play.do(PassTime(61))
    raise JammedError(f"{len(play.actors)} processes wait for each other")


def found_nothing(run: DagRun) -> bool:
    """Whether its plan was the end of it."""
    return not run.failed and run.tried[1] == 0
