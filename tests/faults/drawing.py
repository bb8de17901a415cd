"""Schedules, drawn from a seed: what there is at the beginning, and what happens then. The weights see to it that most schedules load a lot, and that
most faults strike in the middle of something."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from random import Random

from faults.moves import TOPIC
from faults.operations import (
    ABatch,
    AddPartitions,
    AllowGaps,
    Arrive,
    Clear,
    Correct,
    CrashServer,
    CreateAgain,
    CutLog,
    Decide,
    Decision,
    DeleteTopic,
    Duplicate,
    Fault,
    Go,
    Look,
    MarkSuccess,
    Operation,
    PassTime,
    Reprocess,
    Retain,
    SkipOffsets,
    SomeRejects,
    Start,
    Strike,
    SwapCluster,
    Thaw,
    Wish,
)
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, Ranges, Window
from windows import at

ANY = 60
"""Numbers that are taken by remainder are drawn below it: it has many divisors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What there is before anything happens."""

    ends: tuple[int, ...]
    """By partition."""
    incarnation: int
    """Of the topic; each time it is created again it is one more."""
    delivery: str
    gaps: str
    start: str | datetime
    batch_records: int
    run_batches: int
    batch_bytes: int | None = None
    events_days: int | None = None
    """After which upkeep deletes old events."""
    frame: bool = False
    """Whether the transform sees the whole batch, so that only the difference tells how many records it filtered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All that happens, but for the healing."""

    beginning: Beginning
    operations: tuple[Operation, ...]


def schedule(seed: int) -> Schedule:
    """The same one for the same seed."""
    random = Random(seed)
    scenes = [_new_run, *random.choices(_SCENES, _WEIGHTS, k=random.randint(5, 16))]
    return Schedule(
        beginning=_beginning(random), operations=tuple(chain.from_iterable(draw(random) for draw in scenes))
    )


def _beginning(random: Random) -> Beginning:
    incarnation = random.choice((1, 1, 1, 2))
    return Beginning(
        ends=tuple(random.randint(0, 14) for _ in range(random.choice((1, 2, 2, 3)))),
        incarnation=incarnation,
        delivery="latest_wins" if random.random() < 0.15 else "exactly_once",
        gaps="allowed" if random.random() < (0.7, 0.2)[incarnation % 2] else "refused",
        start=random.choice(("latest", at(6), *["earliest"] * 8)),
        batch_records=random.choice((4, 6, 10)),
        batch_bytes=random.choice((300, *[None] * 5)),
        run_batches=random.choice((1, 2, 3)),
        events_days=random.choice((1, *[None] * 7)),
        frame=random.random() < 0.2,
    )


def _any(random: Random) -> int:
    return random.randrange(ANY)


def _actor(random: Random) -> int:
    """More often than not the newest."""
    return -1 if _flag(random) else _any(random)


def _offset(random: Random) -> int:
    return random.randint(0, 24)


def _flag(random: Random, share: float = 0.5) -> bool:
    return random.random() < share


def _new(random: Random) -> Wish:
    if _flag(random, 0.7):
        return NewRecords()
    until = _offset(random)
    return NewRecords(until=at(until), since=at(max(0, until - 10)))


def _window(random: Random) -> Wish:
    start = _offset(random)
    return Window(start=at(start), end=at(start + random.randint(1, 20)), replace=_flag(random))


def _ranges(random: Random) -> Wish:
    pieces = [
        NamedRange(TOPIC, partition, OffsetRange(start, start + random.randint(1, 15)))
        for partition in random.sample(range(3), random.choice((1, 1, 2)))
        for start in [_offset(random)]
    ]
    return Ranges(ranges=tuple(pieces), replace=_flag(random, 0.7))


def _batch(random: Random) -> Wish:
    return ABatch(_any(random), replace=_flag(random, 0.7))


def _rejects(random: Random) -> Wish:
    return SomeRejects(None if _flag(random, 0.7) else _any(random))


def _fault(random: Random) -> Fault:
    strike = random.choice(tuple(Strike))
    # From the beginning of a run to its end there are some hundred points, and a dozen COMMITs.
    most = 12 if strike in {Strike.COMMIT_KEPT, Strike.COMMIT_LOST} else 110
    return Fault(strike, _actor(random), random.randint(0, most))


def _go(random: Random) -> Go:
    return Go(_actor(random), random.choice((random.randint(1, 15), random.randint(15, 50))))


def _run(random: Random, wish: Wish) -> list[Operation]:
    """A run begins and, more often than not, does something or is struck."""
    then = random.choice((None, Go(-1, random.randint(1, 40)), replace(_fault(random), process=-1)))
    return [Start(wish), *([then] if then else [])]


def _new_run(random: Random) -> list[Operation]:
    return [Arrive(_any(random), random.randint(1, 9)), *_run(random, _new(random))]


def _decision(random: Random) -> list[Operation]:
    then = replace(_fault(random), process=-1, after=random.randint(0, 15)) if _flag(random, 0.4) else _go(random)
    return [Decide(random.choice(tuple(Decision)), _any(random)), then]


def _ends(random: Random) -> tuple[int, ...]:
    return tuple(random.randint(0, 14) for _ in range(random.randint(1, 3)))


_TABLE: tuple[tuple[float, Callable[[Random], Sequence[Operation]]], ...] = (
    (10, _new_run),
    (3, lambda random: _run(random, _window(random))),
    (3, lambda random: _run(random, _ranges(random))),
    (3, lambda random: _run(random, _batch(random))),
    (4, lambda random: _run(random, _rejects(random))),
    (12, lambda random: [_go(random)]),
    (20, lambda random: [_fault(random)]),
    (5, lambda random: [Thaw(_any(random)), _go(random)]),
    (2, lambda random: [Duplicate(_any(random))]),
    (4, lambda random: [Clear(_any(random), random.randrange(3))]),
    (2, lambda random: [Reprocess(_any(random), random.choice((_new, _window, _window, _ranges))(random))]),
    (2, lambda random: [MarkSuccess(_any(random))]),
    (2, lambda random: [SkipOffsets(_any(random), _offset(random), random.randint(1, 8))]),
    (6, _decision),
    (1, lambda random: [Look(random.choice((_new, _window, _ranges))(random))]),
    (5, lambda random: [Arrive(_any(random), random.randint(1, 9))]),
    (2, lambda random: [Retain(_any(random), random.randint(1, 8))]),
    (1, lambda random: [CutLog(_any(random), random.randint(1, 6))]),
    (1, lambda random: [AddPartitions(random.randint(1, 2), _offset(random))]),
    (1, lambda random: [CreateAgain(_ends(random))]),
    (0.4, lambda random: [DeleteTopic()]),
    (0.6, lambda random: [SwapCluster()]),
    (6, lambda random: [PassTime(random.choice((10, 61, 61, 61, 601, 100_000)))]),
    (1.5, lambda random: [CrashServer()]),
    (1.5, lambda random: [Correct()]),
    (1, lambda random: [AllowGaps()]),
)
_WEIGHTS, _SCENES = zip(*_TABLE, strict=True)
