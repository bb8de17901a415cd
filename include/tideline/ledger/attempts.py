"""Attempts at writing a batch: claim, heartbeat, end. The fence only rises, and only the newest attempt can publish."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg2.extras import DictRow

from tideline.domain.offsets import OffsetRange
from tideline.domain.receipts import BatchIdentity, Receipt
from tideline.domain.states import BatchKind, BatchState
from tideline.errors import FatalError, NeedsOperatorError, SupersededError, TidelineError
from tideline.ledger import folding_turns
from tideline.ledger.connection import Ledger, here
from tideline.ledger.folding_turns import Behind

SHOWN_RANGES = 20
"""How many ranges of a batch the log of its task shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The try of a task that writes. The next try of the same task may take over at once."""

    dag_id: str
    run_id: str
    task_id: str
    try_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """One range of a batch, with all that is needed to read and to check it."""

    stream_id: int
    cluster_id: str
    topic: str
    topic_id: UUID
    partition: int
    offsets: OffsetRange
    gaps_allowed: bool

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} {self.offsets}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A claim on a batch: the right to stage, and to publish as long as no newer attempt has claimed the batch."""

    pipeline: str
    batch_id: int
    identity: UUID
    """Of the batch, also outside of the ledger."""
    kind: BatchKind
    fence: int
    attempt: UUID
    """Its own identity."""
    attempt_id: int
    ranges: tuple[Range, ...]
    outside: bool = False
    """Whether the batch was planned for an outside sink. Defaults to False."""
    stateful: bool = False
    """Whether its records are folded into the pipeline's state. Defaults to False."""

    def __str__(self) -> str:
        return f"{self.pipeline} batch {self.batch_id} attempt {self.fence}"

    @property
    def batch(self) -> BatchIdentity:
        """Return what its batch is called outside of the ledger."""
        return BatchIdentity(self.identity, self.batch_id)

    @property
    def receipt(self) -> Receipt:
        """Return the receipt that an outside sink has after this attempt has committed."""
        return Receipt(fence=self.fence, attempt=self.attempt)

    def describe_ranges(self) -> str:
        """List the ranges; if they are too many for a log line, list the first ones and how many more there are."""
        more = len(self.ranges) - SHOWN_RANGES
        return ", ".join(map(str, self.ranges[:SHOWN_RANGES])) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A living attempt of another task writes the batch. To wait saves its work; to claim the batch would also be safe."""

    holder: str
    silent_seconds: float


def claim(
    ledger: Ledger, batch_id: int, writer: Writer, *, pipeline: str | None = None, stale_after_seconds: float
) -> Attempt | Held | Behind | BatchState:
    """Claim a batch for a new attempt.

    If that is not possible, return who holds the batch, or its state if nothing is left to write. An attempt of the
    same task (an earlier try, or the run before the task was cleared) is taken over at once. An attempt of another task
    is taken over when its heartbeat is older than `stale_after_seconds`, by the database's clock. A stateful batch is
    claimed when all batches before it are published.

    Raises:
        FatalError: There is no such batch.
        NeedsOperatorError: `pipeline` is given, and the writer's run of that pipeline was not given this batch.
        RetryableError: Records before a stateful batch are not folded, and no process is about to fold them.
    """
    with ledger.transaction():
        batch = ledger.row("lock_batch", batch_id=batch_id)
        if pipeline is not None:
            _check_given(ledger, pipeline, batch_id, writer)
        if batch is None:
            raise FatalError(
                f"batch {batch_id} is not in the ledger", next_step="check the batch id", entry="no-such-batch"
            )
        state = BatchState(batch["state"])
        if state not in {BatchState.PLANNED, BatchState.FAILED, BatchState.WRITING}:
            return state
        if state is BatchState.WRITING and not _may_take_over(batch, writer, stale_after_seconds):
            return Held(
                holder=f"{batch['dag_id']} {batch['run_id']} {batch['task_id']} try {batch['try_number']} "
                f"(pid {batch['pid']} on {batch['host']})",
                silent_seconds=batch["silent_seconds"],
            )
        if batch["stateful"] and (behind := folding_turns.wait_for(ledger, batch, stale_after_seconds)) is not None:
            return behind
        return take_over(ledger, batch, writer)


def _check_given(ledger: Ledger, pipeline: str, batch_id: int, writer: Writer) -> None:
    """Refuse a batch that this run was not given. Called under the batch's lock.

    A ledger that was restored to an earlier moment uses batch ids again, so the id may be that of another run's batch.
    """
    given = {"pipeline": pipeline, "dag_id": writer.dag_id, "run_id": writer.run_id, "batch_id": batch_id}
    if not ledger.rows("find_given_batch", **given):
        raise NeedsOperatorError(
            f"{pipeline}: expected batch {batch_id} among those of the run {writer.run_id} of {writer.dag_id}; the ledger has not given it "
            "to this run: was the ledger restored to an earlier moment?",
            next_step="clear the whole run, so that its task `plan` asks this ledger; first see what is to be done after a restore: "
            "tideline doctor",
            entry="batches-of-another-ledger",
        )


def _may_take_over(batch: Any, writer: Writer, stale_after_seconds: float) -> bool:
    same_task = (batch["dag_id"], batch["run_id"], batch["task_id"]) == (writer.dag_id, writer.run_id, writer.task_id)
    return same_task or batch["silent_seconds"] > stale_after_seconds


def take_over(ledger: Ledger, batch: Any, writer: Writer) -> Attempt:
    """Start a new attempt, one fence above the last, at a batch that `lock_batch` has locked.

    From now on no older attempt can publish.
    """
    batch_id = batch["batch_id"]
    if batch["attempt"] is not None:
        ledger.run(
            "end_attempt", attempt=batch["attempt"], outcome="superseded", problem="taken over by a newer attempt"
        )
    new = ledger.rows(
        "start_attempt",
        batch_id=batch_id,
        fence=batch["fence"] + 1,
        dag_id=writer.dag_id,
        run_id=writer.run_id,
        task_id=writer.task_id,
        try_number=writer.try_number,
        **here(),
    )[0]
    if not ledger.rows("claim_batch", batch_id=batch_id, fence=new["fence"], attempt=new["attempt"]):
        raise RuntimeError(f"batch {batch_id} changed under its own lock")
    return Attempt(
        pipeline=batch["pipeline"],
        batch_id=batch_id,
        identity=batch["identity"],
        kind=BatchKind(batch["kind"]),
        fence=new["fence"],
        attempt=new["attempt"],
        attempt_id=new["attempt_id"],
        ranges=tuple(ranges(ledger, batch_id)),
        outside=batch["outside"],
        stateful=batch["stateful"],
    )


def find(ledger: Ledger, batch_id: int) -> DictRow | None:
    """Return a batch as it was planned, with its state and its newest attempt; None if the ledger does not have it."""
    return ledger.row("find_batch", batch_id=batch_id)


def kind_of(ledger: Ledger, batch_id: int) -> BatchKind:
    """Return the kind of a batch that the ledger has."""
    return BatchKind(ledger.rows("find_batch", batch_id=batch_id)[0]["kind"])


def ranges(ledger: Ledger, batch_id: int) -> Iterator[Range]:
    """Yield the ranges of a batch, in stream order."""
    for row in ledger.rows("list_ranges", batch_id=batch_id):
        yield Range(
            stream_id=row["stream_id"],
            cluster_id=row["cluster_id"],
            topic=row["topic"],
            topic_id=row["topic_id"],
            partition=row["partition"],
            offsets=OffsetRange(row["start_offset"], row["end_offset"]),
            gaps_allowed=row["gaps_allowed"],
        )


def beat(ledger: Ledger, attempt: UUID) -> bool:
    """Record a heartbeat of `attempt`. Return False once a newer attempt has claimed its batch."""
    with ledger.transaction():
        return bool(ledger.rows("beat", attempt=attempt))


def holds(ledger: Ledger, attempt: Attempt) -> bool:
    """Return whether no newer attempt has claimed the batch, and it is still to be written."""
    with ledger.transaction():
        batch = ledger.row("lock_batch", batch_id=attempt.batch_id)
    return bool(batch and batch["state"] == BatchState.WRITING and batch["attempt"] == attempt.attempt)


def fail(ledger: Ledger, attempt: Attempt, problem: str) -> None:
    """Fail the attempt and release its batch, with its ranges, for the next one.

    A batch that a newer attempt holds stays as it is.
    """
    # An error may quote a record, and a text column can hold neither NUL nor an unpaired surrogate.
    text = problem.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()[:2000]
    with ledger.transaction():
        ledger.rows("fail_batch", batch_id=attempt.batch_id, attempt=attempt.attempt)
        ledger.run("end_attempt", attempt=attempt.attempt, outcome="failed", problem=text)


@contextmanager
def failing(ledger: Ledger, attempt: Attempt) -> Iterator[None]:
    """Fail the attempt on any error inside the block, so that the ledger does not show a dead attempt as writing.

    The same error is raised again, even if the failure could not be recorded; then it has a note about that. A
    SupersededError is not recorded, because the attempt does not hold its batch any more.
    """
    try:
        yield
    except SupersededError:
        raise
    except Exception as error:
        try:
            ledger.reconnect()  # the connection may be lost, and the client does not always notice
            fail(ledger, attempt, str(error))
        except TidelineError as unrecorded:
            error.add_note(f"The attempt still shows as writing: {unrecorded.problem}")
        raise
