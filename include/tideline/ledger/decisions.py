"""Carry out decisions: abandon a batch, leave a hole, resume or retire a stream. Called by `flow`, under the pipeline's lock.

The law: each decision is stored in the history with its actor and reason. No batch that could still publish is
abandoned, and no hole lies over offsets that a batch has reserved. The ledger's triggers enforce both.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from psycopg2.extras import DictRow

from tideline.domain.offsets import LAST, OffsetRange
from tideline.domain.states import BatchKind, BatchState
from tideline.domain.streams import Stream
from tideline.errors import FatalError
from tideline.ledger.attempts import Writer, take_over
from tideline.ledger.connection import Ledger

STALE_AFTER_SECONDS = 60.0
"""Another session may take the batch of an attempt without a heartbeat for this long. The attempt can never publish after that."""

GRACE_SECONDS = 600.0
"""How long a planned batch is left to the run that it was planned for.

The run may wait for its turn, or for a cluster to start its driver.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """What holds a piece of a stream's offsets: a batch that has loaded or reserved it, or a hole."""

    stream_id: int
    offsets: OffsetRange
    batch_id: int | None
    """None for a hole."""
    kind: BatchKind | None
    state: BatchState | None

    @property
    def is_open(self) -> bool:
        """Return whether a batch has reserved the piece and has not loaded it yet."""
        return self.state in {BatchState.PLANNED, BatchState.WRITING, BatchState.FAILED}


def set_reason(ledger: Ledger, reason: str) -> None:
    """Set the reason of every event that the rest of this transaction causes."""
    ledger.rows("set_reason", reason=reason)


def owners(ledger: Ledger, wanted: Iterable[tuple[int, OffsetRange]]) -> list[Owner]:
    """Return what holds the wanted offsets (each range with its stream id), in order. Offsets that nothing holds are left out."""
    pieces = list(wanted)
    rows = ledger.rows(
        "list_owners",
        stream_ids=[stream_id for stream_id, _ in pieces],
        starts=[offsets.start for _, offsets in pieces],
        ends=[offsets.end for _, offsets in pieces],
    )
    return [
        Owner(
            stream_id=row["stream_id"],
            offsets=OffsetRange(row["start_offset"], row["end_offset"]),
            batch_id=row["batch_id"],
            kind=BatchKind(row["kind"]) if row["kind"] else None,
            state=BatchState(row["state"]) if row["state"] else None,
        )
        for row in rows
    ]


def abandon(ledger: Ledger, batch_id: int, *, force: bool = False) -> None:
    """Give up a batch: its offsets are free again, and no attempt at it can publish any more.

    With `force`, this includes a batch that a living attempt writes. That attempt is fenced first, as by a newer
    attempt, so that its next heartbeat ends it.

    Raises:
        FatalError: The batch does not exist, or it is published, or it is being written and `force` is false.
    """
    batch = ledger.row("lock_batch", batch_id=batch_id)
    if batch is None:
        raise FatalError(
            f"batch {batch_id} is not in the ledger", next_step="check the id: tideline batches", entry="no-such-batch"
        )
    state = BatchState(batch["state"])
    if state is BatchState.WRITING:
        if force:
            _fence(ledger, batch)
        elif batch["silent_seconds"] <= STALE_AFTER_SECONDS:
            raise FatalError(
                f"batch {batch_id} is being written by {batch['task_id']} try {batch['try_number']} of {batch['dag_id']} "
                f"{batch['run_id']} (pid {batch['pid']} on {batch['host']}, last sign {batch['silent_seconds']:.0f} s ago)",
                next_step=f"wait until it has published, or stop that task and wait until it has been silent for {STALE_AFTER_SECONDS:.0f} s;\n"
                f"    if it hangs, take the batch from it: tideline abandon {batch_id} --force --reason ...",
                entry="batch-is-being-written",
            )
        else:
            _give_up(ledger, batch_id, batch["attempt"], "fell silent, and was given up")
    elif state in {BatchState.PUBLISHED, BatchState.ADVANCED, BatchState.SUPERSEDED}:
        raise FatalError(
            f"batch {batch_id} is {state}: what is in the output cannot be abandoned",
            next_step=f"to load its offsets again: tideline replay {batch['pipeline']} --batch {batch_id} --reason ...",
            entry="batch-is-published",
        )
    if state is not BatchState.ABANDONED:
        ledger.rows("abandon_batch", batch_id=batch_id)


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


def open_on(ledger: Ledger, stream: Stream, offsets: OffsetRange, kinds: Iterable[BatchKind]) -> list[int]:
    """Return the open batches of these kinds that hold some of the offsets, oldest first."""
    return _open_on(ledger, [(stream.stream_id, offsets)], kinds)


def open_ahead(ledger: Ledger, streams: Iterable[Stream]) -> list[int]:
    """Return the open batches that have reserved offsets at or after the heads. No head can pass them until they are published."""
    wanted = [(stream.stream_id, OffsetRange(stream.next_offset, LAST)) for stream in streams]
    return _open_on(ledger, wanted, (BatchKind.LIVE, BatchKind.BACKFILL))


def _open_on(ledger: Ledger, wanted: Iterable[tuple[int, OffsetRange]], kinds: Iterable[BatchKind]) -> list[int]:
    pieces = list(wanted)
    rows = ledger.rows(
        "list_open_on_streams",
        stream_ids=[stream_id for stream_id, _ in pieces],
        starts=[offsets.start for _, offsets in pieces],
        ends=[offsets.end for _, offsets in pieces],
        kinds=[str(kind) for kind in kinds],
    )
    return [row["batch_id"] for row in rows]


def leave_hole(
    ledger: Ledger, stream: Stream, offsets: OffsetRange, hole: str, *, reason: str, decided_by: str | None = None
) -> None:
    """Record offsets as a hole, `skipped` or `lost`: they are accounted for without being loaded.

    `decided_by` is the session's actor if it is not given.
    """
    ledger.run(
        "record_hole",
        stream_id=stream.stream_id,
        start=offsets.start,
        end=offsets.end,
        hole=hole,
        reason=reason,
        decided_by=decided_by,
    )


def resume(ledger: Ledger, stream: Stream, *, accepted_end: int | None, leader_epoch: int | None = None) -> None:
    """Resume a stopped stream. Until its log has passed what was planned or read, the log may end at `accepted_end`.

    `leader_epoch` is that of the log as it was accepted; None keeps the one of the last check.
    """
    ledger.run("resume_stream", stream_id=stream.stream_id, accepted_end=accepted_end, leader_epoch=leader_epoch)


def bring_back(ledger: Ledger, stream: Stream, because: str) -> None:
    """Stop a retired stream whose topic exists again, until an operator decides. Its head does not move."""
    ledger.run("bring_back_stream", stream_id=stream.stream_id, because=because)


def forget_cut(ledger: Ledger, stream: Stream) -> None:
    """Clear the accepted end of a log that is whole again.

    An operator who accepted that end has not accepted the next truncation.
    """
    ledger.run("forget_cut", stream_id=stream.stream_id)


def retire(ledger: Ledger, stream: Stream) -> None:
    """Retire a stream for good. Its history stays."""
    ledger.run("retire_stream", stream_id=stream.stream_id)


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
        abandoned.append(batch_id)
    set_reason(ledger, "")
    return abandoned
