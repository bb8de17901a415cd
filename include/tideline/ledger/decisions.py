"""What people decide: abandon a batch, leave a hole, resume or retire a stream. Called by `flow`, under the pipeline's lock.

The law: each decision says who and why, and stands in the history. No batch that could still publish is abandoned, and no hole lies over offsets
that a batch has reserved; the ledger's triggers see to both.
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
"""An attempt that has been silent for this long is taken for dead by whoever wants its batch. It can never publish after that."""

GRACE_SECONDS = 600.0
"""So long a planned batch is left to the run that it was planned for: it waits for its turn, or for a cluster to start its driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who has a piece of a stream's offsets: a batch that has loaded or reserved it, or a hole."""

    stream_id: int
    offsets: OffsetRange
    batch_id: int | None
    """None for a hole."""
    kind: BatchKind | None
    state: BatchState | None

    @property
    def is_open(self) -> bool:
        """Whether a batch has reserved it and has not loaded it yet."""
        return self.state in {BatchState.PLANNED, BatchState.WRITING, BatchState.FAILED}


def set_reason(ledger: Ledger, reason: str) -> None:
    """Why: for every event that the rest of this transaction causes."""
    ledger.rows("set_reason", reason=reason)


def owners(ledger: Ledger, wanted: Iterable[tuple[int, OffsetRange]]) -> list[Owner]:
    """Who has what of the wanted offsets (each with its stream id), in order; nobody has the rest."""
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
    """Give a batch up: its offsets are free again, and no attempt at it can publish any more.

    With `force` also one that a living attempt writes. It is fenced first, as by a newer attempt, so that its heartbeat ends it as well.

    Raises:
        FatalError: It is published, or it is being written and `force` was not said.
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
                f"    where it hangs, take the batch from it: tideline abandon {batch_id} --force --reason ...",
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
    """Let a newer attempt, which writes nothing, take the batch from the one that does. Its end stands in the history with who decided so."""
    writer = Writer(dag_id="tideline", run_id=ledger.actor, task_id="abandon --force", try_number=1)
    newer = take_over(ledger, batch, writer)
    _give_up(ledger, newer.batch_id, newer.attempt, f"abandoned by force by {ledger.actor}")


def _give_up(ledger: Ledger, batch_id: int, attempt: UUID, problem: str) -> None:
    ledger.rows("fail_batch", batch_id=batch_id, attempt=attempt)
    ledger.run("end_attempt", attempt=attempt, outcome="failed", problem=problem)


def open_on(ledger: Ledger, stream: Stream, offsets: OffsetRange, kinds: Iterable[BatchKind]) -> list[int]:
    """Open batches of these kinds over some of the offsets, oldest first."""
    return _open_on(ledger, [(stream.stream_id, offsets)], kinds)


def open_ahead(ledger: Ledger, streams: Iterable[Stream]) -> list[int]:
    """Open batches that have reserved offsets behind the heads: until they are published no head gets past them."""
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
    """Record that offsets are accounted for although nobody loads them: `skipped`, or `lost`. By the session's actor unless said otherwise."""
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
    """Let a stopped stream go on; while its log has not passed what was planned or read it may end at `accepted_end`.

    `leader_epoch` is that of the log as it was accepted; None leaves the one of the last look.
    """
    ledger.run("resume_stream", stream_id=stream.stream_id, accepted_end=accepted_end, leader_epoch=leader_epoch)


def bring_back(ledger: Ledger, stream: Stream, because: str) -> None:
    """Stop a retired stream whose topic is there again, with its head where it was, until a person decides."""
    ledger.run("bring_back_stream", stream_id=stream.stream_id, because=because)


def forget_cut(ledger: Ledger, stream: Stream) -> None:
    """The log is whole again: a person who accepted its end has not accepted the next cut."""
    ledger.run("forget_cut", stream_id=stream.stream_id)


def retire(ledger: Ledger, stream: Stream) -> None:
    """End a stream for good; its history stays."""
    ledger.run("retire_stream", stream_id=stream.stream_id)


def abandon_unreadable(ledger: Ledger, pipeline: str) -> list[int]:
    """Abandon open batches that hold a stopped stream, so that the offsets of the others can be planned again; returns them.

    Without this a batch over all partitions fails for ever because of one of them.
    """
    rows = ledger.rows("list_batches_of_stopped", pipeline=pipeline)
    reason = "a stream of it has stopped; the others are planned again"
    return _abandon_unwritten(ledger, pipeline, [row["batch_id"] for row in rows], reason)


def abandon_unclaimed(ledger: Ledger, pipeline: str, reason: str) -> list[int]:
    """Abandon the open live batches of a pipeline that no run will get to; returns them.

    One that was planned a moment ago is left to its run: whoever plans again and again, as often as records arrive, would take from each run what it
    has not begun to write yet, and none would ever load anything.
    """
    rows = ledger.rows(
        "list_unclaimed", pipeline=pipeline, grace_seconds=GRACE_SECONDS, stale_seconds=STALE_AFTER_SECONDS
    )
    return _abandon_unwritten(ledger, pipeline, [row["batch_id"] for row in rows], reason)


def abandon_deleted(
    ledger: Ledger, pipeline: str, gone: Iterable[tuple[Stream, OffsetRange]], reason: str
) -> list[int]:
    """Abandon the open live batches that hold offsets which are gone: no run can read them; returns them."""
    batch_ids = {n for stream, offsets in gone for n in open_on(ledger, stream, offsets, [BatchKind.LIVE])}
    return _abandon_unwritten(ledger, pipeline, sorted(batch_ids), reason) if batch_ids else []


def _abandon_unwritten(ledger: Ledger, pipeline: str, batch_ids: Iterable[int], reason: str) -> list[int]:
    """Abandon batches, except those that somebody is writing: they will publish or fail by themselves.

    Those are not even locked: a large batch is being published for minutes, and no plan waits for that.
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
        except FatalError:  # somebody was quicker
            continue
        abandoned.append(batch_id)
    set_reason(ledger, "")
    return abandoned
