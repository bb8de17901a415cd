"""Abandon batches: on an operator's decision, or because no run is going to write them. Called by `flow`, under the pipeline's lock.

The law: no batch that could still publish is abandoned. The ledger's triggers enforce it.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from psycopg2.extras import DictRow

from tideline.domain.offsets import OffsetRange
from tideline.domain.receipts import BatchIdentity
from tideline.domain.states import BatchKind, BatchState
from tideline.domain.streams import Stream
from tideline.errors import FatalError
from tideline.ledger import intents
from tideline.ledger.attempts import Writer, take_over
from tideline.ledger.connection import Ledger
from tideline.ledger.decisions import open_on, set_reason

STALE_AFTER_SECONDS = 60.0
"""Another session may take the batch of an attempt without a heartbeat for this long. The attempt can never publish after that."""

GRACE_SECONDS = 600.0
"""How long a planned batch is left to the run that it was planned for.

The run may wait for its turn, or for a cluster to start its driver.
"""


class UnsealedError(Exception):
    """A batch may be committed outside of the ledger's database: its sink has to fence it before it is abandoned.

    Args:
        pipeline: Whose batch it is.
        batch_id: The batch.
        identity: Its name outside.
        fence: The highest fence that the decision finds or makes. Nothing was changed.
    """

    def __init__(self, pipeline: str, batch_id: int, identity: UUID, fence: int) -> None:
        super().__init__(f"{pipeline} batch {batch_id} is not sealed above fence {fence}")
        self.pipeline = pipeline
        self.batch_id = batch_id
        self.batch = BatchIdentity(identity, batch_id)
        self.fence = fence


def abandon(ledger: Ledger, batch_id: int, *, force: bool = False, seals: Mapping[int, int] | None = None) -> None:
    """Give up a batch: its offsets are free again, and no attempt at it can publish any more.

    With `force`, this includes a batch that a living attempt writes. That attempt is fenced first, as by a newer
    attempt, so that its next heartbeat ends it. `seals` holds, by batch, the fence below which an outside sink lets no
    attempt commit any more.

    Raises:
        FatalError: The batch does not exist, or it is published, or it is being written and `force` is false.
        UnsealedError: It may be committed outside, and `seals` does not rule that out. Nothing was changed.
    """
    batch = ledger.row("lock_batch", batch_id=batch_id)
    if batch is None:
        raise FatalError(
            f"batch {batch_id} is not in the ledger", next_step="check the id: tideline batches", entry="no-such-batch"
        )
    state = BatchState(batch["state"])
    _check_abandon(batch, state, force=force)
    if intents.unsealed(ledger, batch_id):
        highest = batch["fence"] + (state is BatchState.WRITING and force)
        below = (seals or {}).get(batch_id, 0)
        if below <= highest:
            raise UnsealedError(batch["pipeline"], batch_id, batch["identity"], highest)
        intents.seal(ledger, batch_id, below)
    if state is BatchState.WRITING and force:
        _fence(ledger, batch)
    elif state is BatchState.WRITING:
        _give_up(ledger, batch_id, batch["attempt"], "fell silent, and was given up")
    if state is not BatchState.ABANDONED:
        ledger.rows("abandon_batch", batch_id=batch_id)


def _check_abandon(batch: DictRow, state: BatchState, *, force: bool) -> None:
    batch_id = batch["batch_id"]
    if state is BatchState.WRITING and not force and batch["silent_seconds"] <= STALE_AFTER_SECONDS:
        raise FatalError(
            f"batch {batch_id} is being written by {batch['task_id']} try {batch['try_number']} of {batch['dag_id']} "
            f"{batch['run_id']} (pid {batch['pid']} on {batch['host']}, last sign {batch['silent_seconds']:.0f} s ago)",
            next_step=f"wait until it has published, or stop that task and wait until it has been silent for {STALE_AFTER_SECONDS:.0f} s;\n"
            f"    if it hangs, take the batch from it: tideline abandon {batch_id} --force --reason ...",
            entry="batch-is-being-written",
        )
    if state in {BatchState.PUBLISHED, BatchState.ADVANCED, BatchState.SUPERSEDED}:
        raise FatalError(
            f"batch {batch_id} is {state}: what is in the output cannot be abandoned",
            next_step=f"to load its offsets again: tideline replay {batch['pipeline']} --batch {batch_id} --reason ...",
            entry="batch-is-published",
        )


def _fence(ledger: Ledger, batch: DictRow) -> None:
    """Take the batch from its living attempt, by a newer attempt that writes nothing.

    The history records its end and who decided it.
    """
    writer = Writer(dag_id="tideline", run_id=ledger.actor, task_id="abandon --force", try_number=1)
    newer = take_over(ledger, batch, writer)
    _give_up(ledger, newer.batch_id, newer.attempt, f"abandoned by force by {ledger.actor}")


def _give_up(ledger: Ledger, batch_id: int, attempt: UUID, problem: str) -> None:
    ledger.rows("fail_batch", batch_id=batch_id, attempt=attempt)
    ledger.run("end_attempt", attempt=attempt, outcome="failed", problem=problem)


def abandon_unreadable(ledger: Ledger, pipeline: str) -> list[int]:
    """Abandon open live batches that hold a stopped stream, and return their ids.

    The offsets of the other streams can be planned again. Without this, a batch over all partitions fails for ever
    because of one of them.
    """
    rows = ledger.rows("list_batches_of_stopped", pipeline=pipeline)
    reason = "a stream of it has stopped; the others are planned again"
    return _abandon_unwritten(ledger, pipeline, [row["batch_id"] for row in rows], reason)


def abandon_unclaimed(ledger: Ledger, pipeline: str, reason: str) -> list[int]:
    """Abandon the open live batches of a pipeline that no run is going to write, and return their ids.

    A batch that was planned a moment ago is left to its run. Otherwise a pipeline that plans each time records arrive
    would take from each run what the run has not begun to write yet, and no run would ever load anything.
    """
    rows = ledger.rows(
        "list_unclaimed", pipeline=pipeline, grace_seconds=GRACE_SECONDS, stale_seconds=STALE_AFTER_SECONDS
    )
    return _abandon_unwritten(ledger, pipeline, [row["batch_id"] for row in rows], reason)


def abandon_deleted(
    ledger: Ledger, pipeline: str, gone: Iterable[tuple[Stream, OffsetRange]], reason: str
) -> list[int]:
    """Abandon the open live batches that hold offsets deleted from Kafka, and return their ids. No run can read these batches."""
    batch_ids = {n for stream, offsets in gone for n in open_on(ledger, stream, offsets, [BatchKind.LIVE])}
    return _abandon_unwritten(ledger, pipeline, sorted(batch_ids), reason) if batch_ids else []


def _abandon_unwritten(ledger: Ledger, pipeline: str, batch_ids: Iterable[int], reason: str) -> list[int]:
    """Abandon batches, and return their ids.

    Batches that a living attempt writes are left alone: they will publish or fail by themselves. Those are not even
    locked: to publish a large batch takes minutes, and no plan waits for that.
    """
    rows = ledger.rows("list_being_written", pipeline=pipeline, stale_seconds=STALE_AFTER_SECONDS)
    written = {row["batch_id"] for row in rows}
    abandoned = []
    set_reason(ledger, reason)
    for batch_id in batch_ids:
        if batch_id in written:
            continue
        try:
            abandon(ledger, batch_id)
        except FatalError:  # another session has claimed or published it meanwhile
            continue
        except UnsealedError:  # it may be committed outside: `write` asks the sink, and settles or seals it
            continue
        abandoned.append(batch_id)
    set_reason(ledger, "")
    return abandoned
