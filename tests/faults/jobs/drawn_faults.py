"""Draw the faults of a schedule: what is killed or frozen, and at which moment."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from faults.jobs.order_outputs import Output, Sink
from faults.jobs.write_progress import Moment


class Kind(StrEnum):
    """What a fault does. The order matters: no four neighbours contain both kinds that kill nothing."""

    FROZEN = "driver frozen while another job takes over"
    JVM = "JVM killed"
    BACKEND = "Postgres backend killed"
    WORKER = "Python worker killed"
    BROKER = "broker killed"
    BESIDE = "second job beside the first"
    DRIVER = "Python driver killed"
    POSTMASTER = "postmaster killed"
    EVERYTHING = "everything killed at once"


START, ANY = "start", "any"
"""Moments in addition to those of an attempt: the first seconds of a job, and any time."""
_OF_JOB = (START, Moment.CLAIMED, Moment.READING, Moment.STAGING, Moment.PUBLISHING)
_MOMENTS = {
    Kind.FROZEN: (Moment.CLAIMED, Moment.READING, Moment.STAGING),
    Kind.WORKER: (Moment.READING, Moment.STAGING),
    Kind.BACKEND: (*_OF_JOB[1:], ANY),
    Kind.POSTMASTER: (*_OF_JOB, ANY),
    Kind.BROKER: (*_OF_JOB, ANY),
}
_OF_COMMIT = (Moment.COMMITTING, Moment.COMMITTING, Moment.SETTLING)
"""Moments of an outside sink's commit, the more frequent one twice."""
_LONGEST_S = {START: 3.0, ANY: 3.0, Moment.CLAIMED: 0.5, Moment.PUBLISHING: 0.08, Moment.SETTLING: 0.08}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A planned fault."""

    kind: Kind
    moment: str
    seconds: float
    """Seconds after the beginning of the moment."""
    down: float
    """Seconds until a killed server is started again."""
    held: bool
    """Whether a publishing or settling transaction is struck before it gets its first lock, instead of somewhere
    later."""
    which: int
    """Selects one of several sessions of Postgres."""
    same_task: bool
    """Whether a second job is the next try of the same task, which takes over at once. If not, it belongs to another
    run."""
    waits: bool = False
    """Whether another run really waits until a frozen driver has been silent for a minute."""

    def __str__(self) -> str:
        return f"{self.kind} ({self.moment})"


def draw(rng: Random, kind: Kind, output: Output) -> Fault:
    """Draw a fault of a kind, at a moment that suits it and the output."""
    moment = rng.choice(_moments(rng, kind, output))
    return Fault(
        kind=kind,
        moment=moment,
        seconds=rng.uniform(0, _LONGEST_S.get(moment, 0.2)),
        down=rng.choice((0.0, rng.uniform(0, 3))),
        held=rng.random() < 0.3,
        which=rng.randrange(1000),
        same_task=rng.random() < 0.5,
        waits=rng.random() < 0.1,
    )


def _moments(rng: Random, kind: Kind, output: Output) -> tuple[str, ...]:
    """Return the moments to choose from. Half of the faults hit the commit to an outside sink, and all that freeze a driver."""
    if output.is_outside and kind is not Kind.WORKER and (rng.random() < 0.5 or kind is Kind.FROZEN):
        return _OF_COMMIT
    found: tuple[str, ...] = _MOMENTS.get(kind, _OF_JOB)
    if output.sink is Sink.LAKE:  # it has no staging table, whose creation would show when the reading begins
        found = tuple(moment for moment in found if moment != Moment.READING)
    return found
