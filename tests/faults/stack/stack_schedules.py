"""What happens in one schedule, drawn from its seed: which process dies when, what people ask for meanwhile, and which records arrive."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

WINDOW_S = 35.0
"""Everything begins within so many seconds."""


class Victim(StrEnum):
    """A process of the stack. The first six are named as the stack names its parts."""

    POSTGRES = "Postgres"
    KAFKA = "Kafka"
    API_SERVER = "api-server"
    DAG_PROCESSOR = "dag-processor"
    SCHEDULER = "scheduler"
    TRIGGERER = "triggerer"
    PLAN = "runner of plan"
    ADVANCE = "runner of advance"
    SUPERVISOR = "supervisor of write"
    RUNNER = "runner of write"
    JVM = "driver JVM"
    DRIVER = "Python driver"
    WORKER = "Python worker"


PARTS, OF_WRITE = tuple(Victim)[:6], tuple(Victim)[8:]


class Hold(StrEnum):
    """Where a write is held when its process dies; what lives on of it goes on later, beside the retry."""

    NOWHERE = "at any moment"
    STAGING = "while it stages"
    PUBLISH = "before it publishes"


class Replayed(StrEnum):
    """How somebody says what is to be replaced."""

    BATCH = "a batch"
    RANGES = "its ranges"
    WINDOW = "an hour"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One process that dies."""

    victim: Victim
    after: float
    """Not before so many seconds; a process of a task dies when there is one."""
    pipeline: int
    """Of which pipeline, for a process of a task: 0 for the hourly one, 1 for the woken one."""
    hold: Hold
    held: float
    """How many seconds a lock is held on after the death, or how far into a write that nothing holds."""

    def __str__(self) -> str:
        return f"{self.victim}, {self.hold}" if self.victim in OF_WRITE else str(self.victim)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Everything that happens until the faults have ended. Moments are seconds from the beginning."""

    seed: int
    kills: tuple[Kill, ...]
    down: Mapping[str, float]
    """How many seconds each part stays away."""
    hands: tuple[float, ...]
    """When somebody triggers a run for new records."""
    backfill: tuple[float, int]
    """When somebody fills in the hours before the start, and how many."""
    replays: tuple[tuple[float, Replayed], ...]
    """When somebody replaces something that is loaded."""
    bursts: tuple[int, ...]
    """How many records arrive at once, evenly spread over time."""


def schedule(seed: int) -> Schedule:
    """The same one for the same seed."""
    rng = Random(seed)
    return Schedule(
        seed=seed,
        kills=tuple(_kill(rng, victim) for victim in Victim),
        down={part: rng.choice((0.0, rng.uniform(0, 8))) for part in PARTS},
        hands=tuple(sorted(rng.uniform(0, WINDOW_S) for _ in range(rng.randint(1, 3)))),
        backfill=(rng.uniform(0, WINDOW_S), rng.randint(1, 2)),
        replays=tuple((rng.uniform(5, WINDOW_S), rng.choice(tuple(Replayed))) for _ in range(rng.randint(1, 2))),
        bursts=tuple(rng.randint(1, 60) for _ in range(rng.randint(6, 12))),
    )


def _kill(rng: Random, victim: Victim) -> Kill:
    # A Python worker lives for a moment only: it is there for sure while it stages.
    hold = Hold.STAGING if victim is Victim.WORKER else rng.choice(tuple(Hold))
    return Kill(
        victim=victim,
        after=rng.uniform(0, WINDOW_S),
        # A plan comes when it is triggered, but for runs that wait until there is room for one more.
        pipeline=0 if victim is Victim.PLAN else rng.randrange(2),
        hold=hold,
        held=rng.uniform(0, 6),
    )
