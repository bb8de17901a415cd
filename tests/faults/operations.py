"""What happens, one thing after the other: what people, runs, Kafka and crashes do. Plain values, drawn before anything runs.

What an operation is about it names by remainder (process 7 of the three that there are is the second one): any of them may be left out, and the
others still mean something. That is what makes a schedule that failed small.
"""

from dataclasses import dataclass
from enum import StrEnum

from tideline.domain.requests import NewRecords, Ranges, Window


class Strike(StrEnum):
    """What a fault does to a process."""

    KILL = "kill"
    """SIGKILL: nothing of it runs any more; its task is tried again."""
    ERROR = "error"
    """A step fails: the ledger refuses a statement, the broker does not answer, Spark gives up."""
    CUT = "cut"
    """Its connection to the ledger is lost; it notices at the next statement."""
    COMMIT_KEPT = "commit kept"
    """The connection is lost during a COMMIT that took effect, and the process lives."""
    COMMIT_LOST = "commit lost"
    """The same, and the COMMIT never arrived."""
    FREEZE = "freeze"
    """It stops, is taken for dead and its task tried again; much later it goes on where it stood."""
    LOSE = "lose"
    """It is taken for dead and its task tried again, but it lives and goes on at the same time."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A process goes on, and what strikes it after so many more points: statements, COMMITs, questions to the broker, steps of Spark.

    A DAG run counts as one process: where its task ends, its next one goes on. What is left of a task that was taken for dead is another.
    """

    strike: Strike
    process: int
    after: int
    """Of the two that strike a COMMIT: so many more COMMITs."""


@dataclass(frozen=True, slots=True)
class Go:
    """A process goes on for so many steps: transactions, questions to the broker, steps of Spark."""

    process: int
    steps: int


@dataclass(frozen=True, slots=True)
class Until:
    """A DAG run goes on until it is at its task: 1 is `write`, 2 is `advance`. It stops where it has to wait."""

    process: int
    task: int


@dataclass(frozen=True, slots=True)
class Finish:
    """A process goes on until it is through, or has to wait."""

    process: int


@dataclass(frozen=True, slots=True)
class Thaw:
    """A frozen process goes on: from now on it is an orphan that lives."""

    frozen: int


@dataclass(frozen=True, slots=True)
class ABatch:
    """A wish for the ranges of one of the batches that there are."""

    number: int
    replace: bool


@dataclass(frozen=True, slots=True)
class SomeRejects:
    """A wish for rejects: of one of the batches that there are, or of all."""

    number: int | None


Wish = NewRecords | Window | Ranges | ABatch | SomeRejects


@dataclass(frozen=True, slots=True)
class Start:
    """A DAG run begins: its `plan` is a process now."""

    wish: Wish
    pipeline: int = 0


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The task that a run is at is started a second time, as it is."""

    run: int


@dataclass(frozen=True, slots=True)
class Clear:
    """A task of a run is cleared with those behind it: 0 is `plan`, 2 is `advance`."""

    run: int
    task: int


@dataclass(frozen=True, slots=True)
class Reprocess:
    """A run is started anew under its old id, and may ask for something else: Airflow's backfill does so."""

    run: int
    wish: Wish


@dataclass(frozen=True, slots=True)
class MarkSuccess:
    """The task that a run is at is marked as success by hand: what it was doing is killed, and the next one starts."""

    run: int


@dataclass(frozen=True, slots=True)
class SkipOffsets:
    """A person skips offsets: a process, as every command is."""

    partition: int
    start: int
    length: int


class Decision(StrEnum):
    """What else a person does; `Decide.number` tells which batch, or which partition."""

    ABANDON = "abandon"
    ACCEPT_LOSS = "accept loss"
    ACCEPT_ALL = "accept every loss"
    ADOPT = "adopt topic"
    RETRY = "retry"
    UPKEEP = "upkeep"


@dataclass(frozen=True, slots=True)
class Decide:
    """A person gives a command: it is a process now."""

    decision: Decision
    number: int
    pipeline: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """A dry run."""

    wish: Wish


@dataclass(frozen=True, slots=True)
class Arrive:
    """Records arrive in a partition."""

    partition: int
    count: int


@dataclass(frozen=True, slots=True)
class Retain:
    """Retention deletes the oldest records of a partition."""

    partition: int
    count: int


@dataclass(frozen=True, slots=True)
class CutLog:
    """The newest records of a partition are lost: an unclean election, or a restore."""

    partition: int
    count: int


@dataclass(frozen=True, slots=True)
class Overwrite:
    """The newest records of a partition are lost, and before anybody looks there are as many others in their place, and more."""

    partition: int
    count: int
    more: int


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """The topic has more partitions, each with so many records."""

    count: int
    records: int


@dataclass(frozen=True, slots=True)
class CreateAgain:
    """The topic is deleted and created again, with so many records in each partition."""

    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """The topic is gone, until it is created again."""


@dataclass(frozen=True, slots=True)
class SwapCluster:
    """From now on another cluster answers at the declared address, with a topic of the same name."""


@dataclass(frozen=True, slots=True)
class PassTime:
    """Time passes. Who lives beats its heart meanwhile; who is frozen or dead falls silent."""

    seconds: int


@dataclass(frozen=True, slots=True)
class CrashServer:
    """Postgres crashes and comes back: all connections are lost, and what was staged in tables that are not logged."""


@dataclass(frozen=True, slots=True)
class KeepLedger:
    """Somebody keeps a copy of the database: ledger and output of this moment."""


@dataclass(frozen=True, slots=True)
class RestoreLedger:
    """The copy takes the place of the database. Airflow knows nothing of it, and neither does Kafka."""


@dataclass(frozen=True, slots=True)
class Correct:
    """Somebody corrects transform.py: records that it refused will pass."""


@dataclass(frozen=True, slots=True)
class AllowGaps:
    """Somebody declares `source.gaps: allowed`."""


@dataclass(frozen=True, slots=True)
class Heal:
    """All that schedules break outside of the processes is whole again: the topic is there, logs have grown past what was lost, the transform is
    corrected, gaps are declared, and batches and runs may be large. Never drawn: it is how each schedule ends."""


Operation = (
    Fault | Go | Until | Finish | Thaw | Start | Duplicate | Clear | Reprocess | MarkSuccess | SkipOffsets | Decide | Look | Arrive | Retain | CutLog
    | Overwrite | AddPartitions | CreateAgain | DeleteTopic | SwapCluster | PassTime | CrashServer | KeepLedger | RestoreLedger
    | Correct | AllowGaps | Heal
)  # fmt: skip
