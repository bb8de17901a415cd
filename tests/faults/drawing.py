"""Schedules, drawn from a seed: what there is at the beginning, and what happens then. The weights see to it that most schedules load a lot, and that
most faults strike in the middle of something."""

from collections.abc import Callable
from dataclasses import dataclass
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
    Retain,
    SkipOffsets,
    SomeRejects,
    Start,
    Strike,
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
    start: str
    batch_records: int
    run_batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All that happens, but for the healing."""

    beginning: Beginning
    operations: tuple[Operation, ...]


def schedule(seed: int) -> Schedule:
    """The same one for the same seed."""
    random = Random(seed)
    drawn = random.choices(_DRAWS, _WEIGHTS, k=random.randint(9, 24))
    operations = [Start(NewRecords()), Go(0, random.choice((15, 60))), *(draw(random) for draw in drawn)]
    return Schedule(beginning=_beginning(random), operations=tuple(operations))


def _beginning(random: Random) -> Beginning:
    incarnation = random.choice((1, 1, 1, 2))
    return Beginning(
        ends=tuple(random.randint(0, 20) for _ in range(random.choice((1, 2, 2, 3)))),
        incarnation=incarnation,
        delivery="latest_wins" if random.random() < 0.15 else "exactly_once",
        gaps="allowed" if random.random() < (0.7, 0.2)[incarnation % 2] else "refused",
        start="latest" if random.random() < 0.1 else "earliest",
        batch_records=random.choice((5, 8, 12)),
        run_batches=random.choice((1, 2, 3)),
    )


def _any(random: Random) -> int:
    return random.randrange(ANY)


def _offset(random: Random) -> int:
    return random.randint(0, 30)


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


def _start(wish: Callable[[Random], Wish]) -> Callable[[Random], Operation]:
    return lambda random: Start(wish(random))


def _fault(random: Random) -> Operation:
    strike = random.choice(tuple(Strike))
    most = 4 if strike in {Strike.COMMIT_KEPT, Strike.COMMIT_LOST} else 40
    return Fault(strike, _any(random), int(random.triangular(0, most, 0)))


def _arrive(random: Random) -> Operation:
    return Arrive(_any(random), random.randint(1, 15))


_TABLE: tuple[tuple[float, Callable[[Random], Operation]], ...] = (
    (12, _start(_new)),
    (4, _start(_window)),
    (3, _start(_ranges)),
    (3, _start(_batch)),
    (3, _start(_rejects)),
    (16, lambda random: Go(_any(random), random.randint(20, 60))),
    (10, lambda random: Go(_any(random), random.randint(1, 12))),
    (20, _fault),
    (4, lambda random: Thaw(_any(random))),
    (2, lambda random: Duplicate(_any(random))),
    (4, lambda random: Clear(_any(random), random.randrange(3))),
    (2, lambda random: MarkSuccess(_any(random))),
    (2, lambda random: SkipOffsets(_any(random), _offset(random), random.randint(1, 8))),
    (6, lambda random: Decide(random.choice(tuple(Decision)), _any(random))),
    (1, lambda random: Look(random.choice((_new, _window, _ranges))(random))),
    (9, _arrive),
    (3, lambda random: Retain(_any(random), random.randint(1, 8))),
    (2, lambda random: CutLog(_any(random), random.randint(1, 6))),
    (1, lambda random: AddPartitions(random.randint(1, 2), _offset(random))),
    (2, lambda random: CreateAgain(tuple(random.randint(0, 20) for _ in range(random.randint(1, 3))))),
    (0.5, lambda random: DeleteTopic()),
    (6, lambda random: PassTime(random.choice((10, 61, 61, 601)))),
    (1.5, lambda random: CrashServer()),
    (2, lambda random: Correct()),
    (1, lambda random: AllowGaps()),
)
_WEIGHTS, _DRAWS = zip(*_TABLE, strict=True)
