"""Define the operations of a schedule: what operators, runs, Kafka and crashes do. They are plain values, drawn
before anything runs.

An operation refers to its subject by number, modulo the count of existing ones: process 7 of three is the second one.
So any operation may be left out, and the others still have a meaning. This makes it possible to shrink a schedule
that failed.
"""

from dataclasses import dataclass
from enum import StrEnum

from tideline.domain.requests import NewRecords, Ranges, Window


class Strike(StrEnum):
    """What a fault does to a process."""

    KILL = "kill"
    """SIGKILL: the process ends at once, and its task is tried again."""
    ERROR = "error"
    """A step fails: the ledger refuses a statement, the broker does not answer, Spark gives up."""
    CUT = "cut"
    """The connection to the ledger is lost. The process notices at its next statement."""
    COMMIT_KEPT = "commit kept"
    """The connection is lost during a COMMIT that took effect; the process lives."""
    COMMIT_LOST = "commit lost"
    """The connection is lost before the COMMIT reached the server; the process lives."""
    FREEZE = "freeze"
    """The process stops and is presumed dead, and its task is tried again. Much later it continues where it stopped."""
    LOSE = "lose"
    """The process is presumed dead and its task is tried again, but it still runs at the same time."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A process continues and is struck after a number of points: statements, COMMITs, questions to the broker, steps
    of Spark.

    A DAG run counts as one process: when a task ends, the run continues with the next one. An orphan, which is the
    process of a task that was presumed dead, counts separately.
    """

    strike: Strike
    process: int
    after: int
    """Points before the strike. For the two strikes at a COMMIT: COMMITs before it."""


@dataclass(frozen=True, slots=True)
class Go:
    """A process takes a number of steps: transactions, questions to the broker, steps of Spark."""

    process: int
    steps: int


@dataclass(frozen=True, slots=True)
class Until:
    """A DAG run continues until it reaches a task: 1 is `write`, 2 is `advance`. It stops earlier if it has to wait."""

    process: int
    task: int


@dataclass(frozen=True, slots=True)
class Finish:
    """A process continues until it is finished or has to wait."""

    process: int


@dataclass(frozen=True, slots=True)
class Thaw:
    """A frozen process continues: from now on it is a running orphan."""

    frozen: int


@dataclass(frozen=True, slots=True)
class ABatch:
    """A request for the ranges of one existing batch."""

    number: int
    replace: bool


@dataclass(frozen=True, slots=True)
class SomeRejects:
    """A request for the rejects of one existing batch, or for all rejects."""

    number: int | None


DrawnRequest = NewRecords | Window | Ranges | ABatch | SomeRejects


@dataclass(frozen=True, slots=True)
class Start:
    """A DAG run starts: its task `plan` becomes a process."""

    request: DrawnRequest
    pipeline: int = 0


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The current task of a run is started a second time, in parallel and unchanged."""

    run: int


@dataclass(frozen=True, slots=True)
class Clear:
    """A task of a run is cleared together with its downstream tasks: 0 is `plan`, 2 is `advance`."""

    run: int
    task: int


@dataclass(frozen=True, slots=True)
class Reprocess:
    """A run is started again under its old id, possibly with another request, as Airflow's backfill does."""

    run: int
    request: DrawnRequest


@dataclass(frozen=True, slots=True)
class MarkSuccess:
    """The current task of a run is marked as success by hand: its process is killed, and the next task starts."""

    run: int


@dataclass(frozen=True, slots=True)
class SkipOffsets:
    """An operator skips offsets. Like every command, this is a process."""

    partition: int
    start: int
    length: int


class Decision(StrEnum):
    """The other operator commands. `Decide.number` selects the batch or the partition."""

    ABANDON = "abandon"
    ACCEPT_LOSS = "accept loss"
    ACCEPT_ALL = "accept every loss"
    ADOPT = "adopt topic"
    RETRY = "retry"
    UPKEEP = "upkeep"


@dataclass(frozen=True, slots=True)
class Decide:
    """An operator enters a command, which becomes a process."""

    decision: Decision
    number: int
    pipeline: int = 0


@dataclass(frozen=True, slots=True)
class GoBack:
    """An operator rewinds a stateful pipeline to a batch, or to the beginning. Any batch is named, also one to which it
    cannot go back."""

    number: int | None
    """None: the beginning."""
    dry_run: bool = False
    pipeline: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """A dry run."""

    request: DrawnRequest


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
    """The newest records of a partition are lost, as in an unclean leader election or a restore."""

    partition: int
    count: int


@dataclass(frozen=True, slots=True)
class Overwrite:
    """The newest records of a partition are lost. Before any process looks, as many others are in their place, and
    `more` after them."""

    partition: int
    count: int
    more: int


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Partitions are added to the topic, each with `records` records."""

    count: int
    records: int


@dataclass(frozen=True, slots=True)
class CreateAgain:
    """The topic is deleted and created again, with the given number of records in each partition."""

    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """The topic is deleted; it stays absent until it is created again."""


@dataclass(frozen=True, slots=True)
class SwapCluster:
    """Another cluster answers at the declared address from now on, with a topic of the same name."""


@dataclass(frozen=True, slots=True)
class PassTime:
    """Time passes. Living processes send heartbeats meanwhile; frozen and dead ones do not."""

    seconds: int


@dataclass(frozen=True, slots=True)
class CrashServer:
    """Postgres crashes and recovers: all connections are lost, and so are the staged rows, which are in unlogged
    tables."""


@dataclass(frozen=True, slots=True)
class KeepLedger:
    """A backup of the database is taken: the ledger and the output of this moment."""


@dataclass(frozen=True, slots=True)
class RestoreLedger:
    """The backup is restored. Airflow and Kafka keep their newer state."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The next commits to the outside sink stay in flight, and their senders get no answer."""

    count: int


@dataclass(frozen=True, slots=True)
class Land:
    """A commit that is in flight to the outside sink arrives there."""

    commit: int


@dataclass(frozen=True, slots=True)
class Lose:
    """A commit that is in flight to the outside sink is lost."""

    commit: int


@dataclass(frozen=True, slots=True)
class Correct:
    """The author corrects transform.py: records that it refused now pass."""


@dataclass(frozen=True, slots=True)
class AllowGaps:
    """The author declares `source.gaps: allowed`."""


@dataclass(frozen=True, slots=True)
class Heal:
    """All that schedules break outside of the processes is repaired: the topic exists, the logs have grown beyond
    what was lost, the transform is corrected, gaps are declared, and batches and runs may be large. This is never
    drawn: it is how each schedule ends.
    """


Operation = (
    Fault | Go | Until | Finish | Thaw | Start | Duplicate | Clear | Reprocess | MarkSuccess | SkipOffsets | Decide | Look | Arrive | Retain | CutLog
    | GoBack | Overwrite | AddPartitions | CreateAgain | DeleteTopic | SwapCluster | PassTime | CrashServer | KeepLedger | RestoreLedger
    | Correct | AllowGaps | Heal | Hold | Land | Lose
)  # fmt: skip
