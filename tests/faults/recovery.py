"""End a schedule: faults are over, frozen processes finish, operators take the pending decisions, and new runs load
the rest."""

from collections.abc import Sequence
from typing import Protocol

from faults.actions import Abandon, AcceptLoss, AcceptPartitions, AdoptTopic, Skip, Task
from faults.operations import Heal, PassTime, Thaw
from faults.schedule_runner import MANY, DagRun, Play
from given_topics.topics import at
from tideline.domain.requests import NamedRange, NewRecords, OneBatch

SCHEDULED = NewRecords(until=at(100_000))
"""A scheduled run, long after the last record. Records with later timestamps than that must not block other records."""
ALONE = 3
"""Runs after which all that needs no decision must be loaded: the first may find inconsistent streams, the next one
plans without them."""
ROUNDS = 40
"""A stateful pipeline writes no batch after one that fails, so that its batches may be given up one by one."""
_RESUMING = (AdoptTopic, AcceptLoss, AcceptPartitions)
"""What lets a stopped stream go on."""
_PATIENCE = 20
"""Rounds in which processes may wait for each other until a heartbeat is too old."""


class JammedError(Exception):
    """Healing does not come to an end."""


class Healable(Protocol):
    """What healing needs to know from a ledger."""

    def failed_batches(self) -> Sequence[int]:
        """Return the batches that a run failed to write."""

    def requested(self) -> Sequence[tuple[str, int]]:
        """Return the open batches that no run for new records adopts because they were requested explicitly: pipeline
        and batch id of each."""

    def has_stopped(self) -> bool:
        """Return whether a stream is stopped and waits for an operator."""

    def unreadable(self) -> Sequence[NamedRange]:
        """Return what a rewind has left to be loaded again and Kafka no longer holds."""


def heal(play: Play, ledger: Healable) -> int:
    """Heal until a run finds nothing left to do, and return the number of runs.

    Raises:
        JammedError: There is always something left to do.
    """
    end_faults(play)
    return load_alone(play) + decide(play, ledger)


def end_faults(play: Play) -> None:
    """Repair Kafka and the declaration, and let all living processes end.

    Raises:
        JammedError: Processes wait for each other.
    """
    play.do(Heal())
    while play.frozen:
        play.do(Thaw(0))
    finish(play)


def load_alone(play: Play) -> int:
    """Run the pipelines without any decision, and return the number of rounds of runs."""
    for number in range(1, ALONE + 1):
        if _found_nothing(play, SCHEDULED):
            return number
    return ALONE


def decide(play: Play, ledger: Healable) -> int:
    """Take the pending decisions, run the pipelines to load the rest, and return the number of rounds.

    Raises:
        JammedError: After many rounds there is still something to load.
    """
    for number in range(1, ROUNDS + 1):
        commands: list[Task] = [Abandon(batch_id) for batch_id in ledger.failed_batches()]
        commands += [Skip(piece) for piece in ledger.unreadable()]
        if ledger.has_stopped():
            commands += [verb(pipeline=name) for name in play.stage.pipelines() for verb in _RESUMING]
        for command in commands:
            play.command(command)
            finish(play)
        for name, batch_id in ledger.requested():
            play.start(OneBatch(batch_id=batch_id), name)
            finish(play)
        if _found_nothing(play, NewRecords()) and not ledger.failed_batches():
            return number
    raise JammedError(f"after {ROUNDS} rounds of decisions and runs there is still something to load")


def _found_nothing(play: Play, request: NewRecords) -> bool:
    """Run each pipeline once, and return whether all the plans found nothing to do."""
    runs = []
    for name in play.stage.pipelines():
        runs.append(play.start(request, name))
        finish(play)
    return all(map(found_nothing, runs))


def finish(play: Play) -> None:
    """Let all processes continue until none is left.

    Raises:
        JammedError: Processes wait for each other.
    """
    for _ in range(_PATIENCE):
        for actor in list(play.actors):
            play.go(actor, MANY)
        if not play.actors:
            return
        play.do(PassTime(61))
    raise JammedError(f"{len(play.actors)} processes wait for each other")


def found_nothing(run: DagRun) -> bool:
    """Return whether the run ended with its plan, because there was nothing to do."""
    return not run.failed and run.tried[1] == 0
