"""Add unusual operations to a drawn schedule: records with odd timestamps, logs that were truncated and have grown
again.

They are drawn from a random source of their own. So the other half of all schedules stays the same when something is
added here.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from faults import drawn_requests
from faults.operations import (
    Arrive,
    Decide,
    Decision,
    Finish,
    Go,
    KeepLedger,
    Operation,
    Overwrite,
    PassTime,
    RestoreLedger,
    Start,
    Until,
)
from faults.records import ODD_CLOCKS
from tideline.domain.requests import NewRecords

SALT = "unusual 1371"
"""Part of the seed of that random source. It is chosen so that the seeds that must find certain mutants draw nothing
unusual."""
SHARE = 0.5
"""The share of all schedules that get something unusual."""

Changes = Callable[[Any], Mapping[str, Any]]
"""Given a `Beginning`, return the fields to change in it."""


def added(random: Random, operations: Sequence[Operation]) -> tuple[Changes, tuple[Operation, ...]]:
    """Add one or two unusual kinds of scenes, or none. Return the change of the beginning, and the operations."""
    changes: list[Changes] = []
    found = list(operations)
    if random.random() < SHARE:
        for draw in random.sample(_KINDS, random.choice((1, 1, 2))):
            change, scenes = draw(random)
            changes.append(change)
            places = sorted(random.randint(0, len(found)) for _ in scenes)
            for place, scene in reversed(list(zip(places, scenes, strict=True))):
                found[place:place] = scene
    return lambda beginning: {name: value for change in changes for name, value in change(beginning).items()}, tuple(
        found
    )


Scenes = list[list[Operation]]


def _as_it_was(_: Any) -> Mapping[str, Any]:
    return {}


def _odd_clocks(random: Random) -> tuple[Changes, Scenes]:
    """Producers give their records arbitrary timestamps, and runs load up to a given time."""
    hours: Scenes = [
        [Arrive(drawn_requests.number(random), random.randint(1, 9)), Start(_until_a_moment(random)), Finish(-1)]
        for _ in range(3)
    ]
    return lambda beginning: {"incarnation": beginning.incarnation + ODD_CLOCKS}, hours


def _overwritten(random: Random) -> tuple[Changes, Scenes]:
    """The newest records are lost and replaced by others in one moment."""
    place = drawn_requests.number(random)
    loaded: list[Operation] = [Arrive(place, random.randint(1, 6)), Start(NewRecords()), Finish(-1)]
    lost = Overwrite(place, random.randint(1, 6), random.randint(0, 4))
    return _as_it_was, [[*(loaded if drawn_requests.flag(random) else []), lost]]


def _until_a_moment(random: Random) -> NewRecords:
    return NewRecords(until=drawn_requests.moment(random))


def _shared(random: Random) -> tuple[Changes, Scenes]:
    """Two pipelines load one topic into one table, half of the records each. Both replay what is loaded."""
    new = NewRecords()
    scenes: Scenes = [[Start(new, pipeline=1), Finish(-1)]]
    scenes += [
        [Start(request, pipeline), Go(-1, random.randint(1, 60)), Finish(-1)]
        for pipeline in (1, 0, 1)
        for request in [
            random.choice(
                (new, drawn_requests.loaded(random), drawn_requests.loaded(random), drawn_requests.rejects(random))
            )
        ]
    ]
    scenes += [[Decide(random.choice(tuple(Decision)), drawn_requests.number(random), 1), Finish(-1)]]
    return lambda _: {"shared": True}, scenes


def _restored(random: Random) -> tuple[Changes, Scenes]:
    """The database is restored from a backup, and runs continue with batches from before the restore."""
    run: list[Operation] = [
        Arrive(drawn_requests.number(random), random.randint(1, 9)),
        Start(random.choice((NewRecords(), drawn_requests.loaded(random)))),
    ]
    known = Until(-1, random.choice((1, 1, 2)))
    begun = [*run, known, Go(-1, random.randint(0, 30))] if drawn_requests.flag(random) else [*run, known]
    other: list[Operation] = [Start(NewRecords()), *([Until(-1, 1)] if drawn_requests.flag(random) else [])]
    return _as_it_was, [
        [KeepLedger()],
        [*begun, RestoreLedger(), *(other if drawn_requests.flag(random, 0.7) else []), Finish(-2)],
    ]


def _refused(random: Random) -> tuple[Changes, Scenes]:
    """The table refuses rows at publish, not earlier; the refused batches are tried again."""
    tried: list[Operation] = [
        Start(random.choice((NewRecords(), drawn_requests.rejects(random), drawn_requests.loaded(random)))),
        _stopped_or_not(random),
    ]
    return lambda _: {"unique": True}, [
        [Arrive(drawn_requests.number(random), random.randint(1, 9)), *tried],
        [Finish(-1)],
    ]


def _stopped_or_not(random: Random) -> Operation:
    return random.choice((Go(-1, random.randint(1, 60)), Finish(-1)))


def _woken(random: Random) -> tuple[Changes, Scenes]:
    """Records start one run after the other, and each begins before the one before it has begun its task `write`."""
    place = drawn_requests.number(random)
    begun: list[Operation] = [
        Start(NewRecords()),
        Until(-1, 1),
        *([PassTime(random.choice((10, 61)))] if drawn_requests.flag(random, 0.3) else []),
    ]
    scene: list[Operation] = [
        one for _ in range(random.randint(2, 5)) for one in (Arrive(place, random.randint(1, 4)), *begun)
    ]
    return lambda _: {"delivery": "latest_wins"}, [[*scene, *(Finish(number) for number in range(3))]]


_KINDS = (_woken, _odd_clocks, _overwritten, _shared, _restored, _refused)
