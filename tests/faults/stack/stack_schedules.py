"""Draw a schedule from a seed: which process is killed when, what operators request meanwhile, and which records
arrive."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

_SECONDS_PER_VICTIM = 2.7


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
    """Where a write is held when its process is killed. Its remaining processes continue later, in parallel to the
    retry."""

    NOWHERE = "at any moment"
    STAGING = "while it stages"
    PUBLISH = "before it publishes"


class Replayed(StrEnum):
    """How a replay names its records."""

    BATCH = "a batch"
    RANGES = "its ranges"
    WINDOW = "an hour"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A planned kill of one process."""

    victim: Victim
    after: float
    """Seconds before which it does not happen. A process of a task is killed when there is one."""
    pipeline: int
    """The pipeline, for a process of a task: 0 for the hourly one, 1 for the one that records start."""
    hold: Hold
    held: float
    """Seconds for which a lock is still held after the kill. For a write that nothing holds: how far into the write
    it is killed."""

    def __str__(self) -> str:
        return f"{self.victim}, {self.hold}" if self.victim in OF_WRITE else str(self.victim)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Everything that happens until the faults have ended. Times are seconds from the beginning."""

    seed: int
    window_s: float
    """Everything begins within this time."""
    kills: tuple[Kill, ...]
    down: Mapping[str, float]
    """Seconds for which each part stays down."""
    manual_runs: tuple[float, ...]
    """Times at which an operator triggers a run for new records."""
    backfill: tuple[float, int]
    """Time at which an operator backfills the hours before the start, and the number of hours."""
    replays: tuple[tuple[float, Replayed], ...]
    """Times at which an operator replays something that is loaded."""
    bursts: tuple[int, ...]
    """Records of each burst; the bursts are evenly spread over time."""


def schedule(seed: int, n_victims: int) -> Schedule:
    """Return the schedule of a seed that kills so many of the processes; the same arguments always give the same schedule.

    With fewer victims fewer runs go on beside them: each run costs many seconds of processor time.
    """
    rng = Random(seed)
    victims = sorted(rng.sample(tuple(Victim), n_victims))
    window_s = _SECONDS_PER_VICTIM * n_victims
    return Schedule(
        seed=seed,
        window_s=window_s,
        kills=tuple(_kill(rng, victim, window_s) for victim in victims),
        down={part: rng.choice((0.0, rng.uniform(0, 8))) for part in PARTS},
        manual_runs=tuple(sorted(rng.uniform(0, window_s) for _ in range(rng.randint(1, max(1, n_victims // 4))))),
        backfill=(rng.uniform(0, window_s), rng.randint(1, 2)),
        replays=tuple(
            (rng.uniform(5, window_s), rng.choice(tuple(Replayed)))
            for _ in range(rng.randint(1, max(1, n_victims // 6)))
        ),
        bursts=tuple(rng.randint(1, 60) for _ in range(rng.randint(n_victims // 2, n_victims))),
    )


def _kill(rng: Random, victim: Victim, window_s: float) -> Kill:
    # A Python worker lives only for a moment. It certainly exists while it stages.
    hold = Hold.STAGING if victim is Victim.WORKER else rng.choice(tuple(Hold))
    return Kill(
        victim=victim,
        after=rng.uniform(0, window_s),
        # A triggered plan starts at once, except for runs that wait for a free slot.
        pipeline=0 if victim is Victim.PLAN else rng.randrange(2),
        hold=hold,
        held=rng.uniform(0, 6),
    )
