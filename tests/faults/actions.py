"""What one process does: a task of a DAG run, or a command that a person gives. Plain values, and one function that does them with the real verbs.

Simulated actors and real processes share this; all that tells them apart is in their `Surroundings`.
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
"""The pipeline, and the one that writes the same table where there are two. Their DAGs have their names."""
WHY = "because"
"""The reason of all that people ask for and decide."""
TRIES = 3
"""Of each task of a run, as a declaration has by default."""


class Surroundings(Protocol):
    """What a process has at hand."""

    ledger: Ledger
    """A session of its own."""
    broker: Broker
    pipeline: Pipeline

    def write(self, batch_ids: Sequence[int], writer: Writer) -> None:
        """Claim, stage and publish, as the Spark job does."""

    def announce(self, announcer: Announcer) -> None:
        """Take what is to be announced and succeed with it, as the task beside `advance` does."""


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
    """Those that `plan` has returned; None where it was marked as success by hand: then those that the ledger has given to the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """The task `advance`, and after it `announce`, which really stands beside it."""

    run: Run
    batch_ids: tuple[int, ...] | None = None
    """As `Write` has it."""


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
    """`tideline accept-loss`, of one partition or of all that have stopped."""

    partition: int | None = None
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
class Upkeep:
    """The task of the DAG `upkeep`."""

    pipeline: str = PIPELINE


Task = Plan | Write | Advance | Abandon | Skip | AcceptLoss | AdoptTopic | Retry | DryRun | Upkeep


def pipeline_of(task: Task) -> str:
    """Whose task or command it is; those of one batch find the pipeline by themselves."""
    match task:
        case Plan() | Write() | Advance():
            return task.run.dag_id
        case Abandon() | Retry():
            return PIPELINE
        case _:
            return task.pipeline


def perform(task: Task, at: Surroundings) -> list[int] | None:
    """Do it from beginning to end; the batches, where it is a plan: with none of them the run is skipped.

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
                    at.announce(announcer)  # a task of its own, which does not wait for `advance`
                raise
            at.announce(announcer)
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
        case AdoptTopic():
            flow.adopt_topic(at.ledger, at.broker, at.pipeline, TOPIC, reason=WHY)
        case Retry():
            flow.retry(at.ledger, task.batch_id, reason=WHY)
        case DryRun():
            flow.dry_run(at.ledger, at.broker, at.pipeline, task.request)
        case Upkeep():
            flow.upkeep(at.ledger, at.pipeline)


def writer_of(task: Write) -> Writer:
    """Who claims: the same task's next try may take over at once."""
    return Writer(dag_id=task.run.dag_id, run_id=task.run.run_id, task_id="write", try_number=task.try_number)


def actor(task: Task) -> str:
    """Who acts, as it stands in the history."""
    match task:
        case Plan() | Write() | Advance():
            return f"{task.run.dag_id} {task.run.run_id} {type(task).__name__.lower()}"
        case _:
            return "ada"


def is_lasting(error: BaseException) -> bool:
    """Whether Airflow fails a task at once, without the tries that it has left."""
    return isinstance(error, FatalError | NeedsOperatorError)
