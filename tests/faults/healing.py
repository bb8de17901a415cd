"""How a schedule ends: faults are over, whoever was frozen finishes, people decide what is to be decided, and new runs load the rest."""

from collections.abc import Sequence
from typing import Protocol

from faults.moves import Abandon, AcceptLoss, AdoptTopic
from faults.operations import Heal, PassTime, Thaw
from faults.playing import DagRun, Play
from tideline.domain.requests import NewRecords

ROUNDS = 12
_MANY = 1_000_000
_PATIENCE = 20
"""Times that everybody may wait for somebody else until the time of a heartbeat is over."""


class JammedError(Exception):
    """Healing leads to nothing."""


class Healable(Protocol):
    """What healing has to know of a ledger."""

    def failed_batches(self) -> Sequence[int]:
        """Batches that a run could not write."""

    def has_stopped(self) -> bool:
        """Whether a stream waits for a person."""


def heal(play: Play, ledger: Healable) -> int:
    """Until a run finds nothing left to do; the rounds that it took.

    Raises:
        JammedError: That never comes.
    """
    play.do(Heal())
    while play.frozen:
        play.do(Thaw(0))
    finish(play)
    for number in range(1, ROUNDS + 1):
        if ledger.has_stopped():
            for command in (AdoptTopic(), AcceptLoss()):
                play.command(command)
                finish(play)
        run = play.start(NewRecords())
        finish(play)
        if found_nothing(run):
            return number
        if run.failed:
            for batch_id in ledger.failed_batches():
                play.command(Abandon(batch_id))
                finish(play)
    raise JammedError(f"after {ROUNDS} rounds of decisions and runs there is still something to load")


def finish(play: Play) -> None:
    """Let everybody go on until nobody is left.

    Raises:
        JammedError: They wait for each other.
    """
    for _ in range(_PATIENCE):
        for actor in list(play.actors):
            play.go(actor, _MANY)
        if not play.actors:
            return
        play.do(PassTime(61))
    raise JammedError(f"{len(play.actors)} processes wait for each other")


def found_nothing(run: DagRun) -> bool:
    """Whether its plan was the end of it."""
    return not run.failed and run.tried[1] == 0
