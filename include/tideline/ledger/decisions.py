"""Carry out decisions: leave a hole, resume or retire a stream. `abandoning` gives batches up. Called by `flow`, under the pipeline's lock.

The law: each decision is stored in the history with its actor and reason, and no hole lies over offsets that a batch
has reserved. The ledger's triggers enforce both.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from psycopg2.extras import DictRow

from tideline.domain.offsets import LAST, OffsetRange
from tideline.domain.states import BatchKind, BatchState
from tideline.domain.streams import Stream
from tideline.ledger import events
from tideline.ledger.connection import Ledger


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
    return _owners(ledger.rows("list_owners", **_bound(wanted)))


def held_alone(ledger: Ledger, wanted: Iterable[tuple[int, OffsetRange]], *, outside: bool) -> list[Owner]:
    """Return the open replays and re-drives that hold some of the wanted offsets, so that no other one may take them.

    These are the ones of outside sinks. A plan of an outside sink must leave those alone, too, that were planned for a table in the database.
    """
    return _owners(ledger.rows("list_alone", **_bound(wanted), outside=outside))


def _bound(wanted: Iterable[tuple[int, OffsetRange]]) -> dict[str, list[int]]:
    pieces = list(wanted)
    return {
        "stream_ids": [stream_id for stream_id, _ in pieces],
        "starts": [offsets.start for _, offsets in pieces],
        "ends": [offsets.end for _, offsets in pieces],
    }


def _owners(rows: Iterable[DictRow]) -> list[Owner]:
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


def open_on(ledger: Ledger, stream: Stream, offsets: OffsetRange, kinds: Iterable[BatchKind]) -> list[int]:
    """Return the open batches of these kinds that hold some of the offsets, oldest first."""
    return _open_on(ledger, [(stream.stream_id, offsets)], kinds)


def open_ahead(ledger: Ledger, streams: Iterable[Stream]) -> list[int]:
    """Return the open batches that have reserved offsets at or after the heads. No head can pass them until they are published."""
    wanted = [(stream.stream_id, OffsetRange(stream.next_offset, LAST)) for stream in streams]
    return _open_on(ledger, wanted, (BatchKind.LIVE, BatchKind.BACKFILL))


def _open_on(ledger: Ledger, wanted: Iterable[tuple[int, OffsetRange]], kinds: Iterable[BatchKind]) -> list[int]:
    rows = ledger.rows(
        "list_open_on_streams",
        **_bound(wanted),
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


def give_up_rewound(ledger: Ledger, stream: Stream, offsets: OffsetRange) -> None:
    """Take offsets from the holes that a rewind has left, so that another hole can be left over them in the same transaction."""
    ledger.run("skip_rewound", stream_id=stream.stream_id, start=offsets.start, end=offsets.end)


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


def set_retired(ledger: Ledger, pipeline: str, *, retired: bool) -> bool:
    """Take a locked pipeline out of sight, or bring it back. Return whether it was not so before.

    One that retires must have no open batches, and the transaction needs a reason.
    """
    return ledger.run("set_retired", pipeline=pipeline, retired=retired) > 0


def record_recreated(ledger: Ledger, pipeline: str, output: str) -> None:
    """Record that an operator begins an output anew."""
    events.record(ledger, "recreate table", pipeline=pipeline, output=output)
