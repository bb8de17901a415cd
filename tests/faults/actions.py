"""Describe the work of one process as plain values, and carry it out with the real verbs.

A process runs one task of a DAG run, or one operator command. The simulated actors and the real processes share this
module. They differ only in their `Surroundings`.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.domain.requests import NamedRange, Request
from tideline.errors import FatalError, NeedsOperatorError, TidelineError
from tideline.kafka.broker import Broker
from tideline.ledger import reservations
from tideline.ledger.attempts import Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.publications import Announcer
from tideline.ledger.reservations import Run

TOPIC = "ads"
PIPELINE, OTHER = "ads", "more"
"""The pipeline, and the second pipeline that writes to the same table in shared schedules. Each DAG has the name of
its pipeline."""
WHY = "because"
"""The reason given with every manual request and operator decision."""
TRIES = 3
"""Tries of each task of a run, as a declaration has by default."""


class Surroundings(Protocol):
    """The resources that a process uses."""

    @property
    def ledger(self) -> Ledger:
        """Return the process's own session."""

    @property
    def broker(self) -> Broker:
        """Return the brokers, real or not."""

    @property
    def pipeline(self) -> Pipeline:
        """Return the declaration."""

    def write(self, batch_ids: Sequence[int], writer: Writer) -> None:
        """Claim, stage and publish the batches, as the Spark job does."""

    def announce(self, announcer: Announcer) -> None:
        """Announce the pending publications and let the task succeed, as the task `announce`, parallel to `advance`,
        does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The task `plan`."""

    run: Run
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """The task `write`."""

    run: Run
    try_number: int
    batch_ids: tuple[int, ...] | None = None
    """The batches that `plan` returned. None if `plan` was marked as success by hand: then the ledger's batches of
    this run are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """The task `advance`, followed by `announce`. In Airflow the two run in parallel."""

    run: Run
    batch_ids: tuple[int, ...] | None = None
    """As in `Write`."""


@dataclass(frozen=True, slots=True)
class Abandon:
    """`tideline abandon`."""

    batch_id: int


@dataclass(frozen=True, slots=True)
class Skip:
    """`tideline skip`."""

    piece: NamedRange
    pipeline: str = PIPELINE


@dataclass(frozen=True, slots=True)
class AcceptLoss:
    """`tideline accept-loss`, for one partition or for all stopped ones."""

    partition: int | None = None
    pipeline: str = PIPELINE


@dataclass(frozen=True, slots=True)
class AcceptPartitions:
    """`tideline accept-partitions`."""

    pipeline: str = PIPELINE


@dataclass(frozen=True, slots=True)
class AdoptTopic:
    """`tideline adopt-topic`."""

    pipeline: str = PIPELINE


@dataclass(frozen=True, slots=True)
class Retry:
    """`tideline retry`, without the run that it starts."""

    batch_id: int


@dataclass(frozen=True, slots=True)
class DryRun:
    """`tideline plan --dry-run`."""

    request: Request
    pipeline: str = PIPELINE


@dataclass(frozen=True, slots=True)
class Rewind:
    """`tideline rewind`, with or without `--dry-run`."""

    to_batch: int
    dry_run: bool = False
    pipeline: str = PIPELINE


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The task of the DAG `upkeep`."""

    pipeline: str = PIPELINE


Task = (
    Plan
    | Write
    | Advance
    | Abandon
    | Skip
    | AcceptLoss
    | AcceptPartitions
    | AdoptTopic
    | Retry
    | DryRun
    | Rewind
    | Upkeep
)


def pipeline_of(task: Task) -> str:
    """Return the name of the pipeline that a task or command belongs to. Commands about one batch look their pipeline
    up themselves."""
    match task:
        case Plan() | Write() | Advance():
            return task.run.dag_id
        case Abandon() | Retry():
            return PIPELINE
        case _:
            return task.pipeline


def perform(task: Task, at: Surroundings) -> list[int] | None:
    """Carry out a task or command from beginning to end. A plan returns its batches, and so does a rewind; the run is
    skipped if there are none.

    Raises:
        TidelineError: As the verb does.
    """
    match task:
        case Plan():
            planned = flow.plan(at.ledger, at.broker, at.pipeline, task.run, task.request, reason=WHY)
            flow.describe(at.ledger, planned.batch_ids)
            return planned.batch_ids
        case Write():
            batch_ids = _batches(task, at)
            flow.check_given(at.ledger, at.pipeline.name, task.run, batch_ids)
            at.write(batch_ids, writer_of(task))
        case Advance():
            announcer = Announcer(dag_id=task.run.dag_id, run_id=task.run.run_id, task_id="announce")
            try:
                _advance(task, at)
            except TidelineError:
                with suppress(TidelineError):
                    at.announce(announcer)  # a separate task, which does not wait for `advance`
                raise
            at.announce(announcer)
        case Rewind():
            done = flow.rewind(at.ledger, at.broker, at.pipeline, task.to_batch, reason=WHY, dry_run=task.dry_run)
            return None if task.dry_run else [*done.planned]
        case _:
            _command(task, at)
    return None


def _batches(task: Write | Advance, at: Surroundings) -> Sequence[int]:
    if task.batch_ids is not None:
        return task.batch_ids
    with at.ledger.transaction():
        return reservations.batches_of_run(at.ledger, at.pipeline.name, task.run)


def _advance(task: Advance, at: Surroundings) -> None:
    flow.check_given(at.ledger, at.pipeline.name, task.run, _batches(task, at))
    try:
        flow.advance(at.ledger, at.pipeline.name, task.run)
    finally:
        flow.show_heads(at.ledger, at.broker, at.pipeline.name)
    if at.pipeline.wake_on_records:
        flow.is_behind(at.ledger, at.broker, at.pipeline.name)


def _command(task: Task, at: Surroundings) -> None:
    match task:
        case Abandon():
            flow.abandon(at.ledger, task.batch_id, reason=WHY)
        case Skip():
            flow.skip(at.ledger, at.broker, at.pipeline, task.piece, reason=WHY)
        case AcceptLoss():
            flow.accept_loss(at.ledger, at.broker, at.pipeline, TOPIC, task.partition, reason=WHY)
        case AcceptPartitions():
            flow.accept_partitions(at.ledger, at.broker, at.pipeline, TOPIC, reason=WHY)
        case AdoptTopic():
            flow.adopt_topic(at.ledger, at.broker, at.pipeline, TOPIC, reason=WHY)
        case Retry():
            flow.retry(at.ledger, task.batch_id, reason=WHY)
        case DryRun():
            flow.dry_run(at.ledger, at.broker, at.pipeline, task.request)
        case Upkeep():
            flow.upkeep(at.ledger, at.pipeline)


def writer_of(task: Write) -> Writer:
    """Return the writer that claims the batches. The next try of the same task may take over at once."""
    return Writer(dag_id=task.run.dag_id, run_id=task.run.run_id, task_id="write", try_number=task.try_number)


def actor(task: Task) -> str:
    """Return the actor name that is stored in the history."""
    match task:
        case Plan() | Write() | Advance():
            return f"{task.run.dag_id} {task.run.run_id} {type(task).__name__.lower()}"
        case _:
            return "ada"


def is_lasting(error: BaseException | None) -> bool:
    """Return whether Airflow fails the task at once, without the remaining tries."""
    return isinstance(error, FatalError | NeedsOperatorError)
