"""The state of a pipeline's keys, as the ledger knows it: how far each stream is folded. `folding` publishes what a batch changes.

The law: after every commit the state of a stream is the fold over exactly the loaded records of [its start, its position).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from tideline.domain.offsets import OffsetRange
from tideline.ledger.connection import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a stream is folded."""

    stream_id: int
    label: str
    """Topic and partition, for messages."""
    next_offset: int
    """The first offset that is not folded."""
    max_time: datetime | None
    """The largest event time that was folded; None before the first one."""
    version: int
    """Counts every change, also a rewind. 0 before the first batch."""
    has_gap: bool
    """Whether offsets were left out between the position and the batch's range, or the topic was created again since."""


class PlannedOffsets(NamedTuple):
    """Offsets of a batch, and when they were planned, for this batch or for one that was given up or rewound."""

    offsets: OffsetRange
    at: datetime


def positions(ledger: Ledger, batch_id: int) -> dict[int, Position]:
    """Return, by stream id, how far the streams of a stateful batch are folded. A job asks before it reads a state, and publishes with the answer."""
    with ledger.transaction():
        return in_transaction(ledger, batch_id)


def in_transaction(ledger: Ledger, batch_id: int) -> dict[int, Position]:
    """Return the same as `positions`, within the transaction of the caller."""
    return {
        row["stream_id"]: Position(
            stream_id=row["stream_id"],
            label=f"{row['topic']}/{row['partition']}",
            next_offset=row["next_offset"],
            max_time=row["max_time"],
            version=row["version"],
            has_gap=row["has_gap"],
        )
        for row in ledger.rows("list_positions", batch_id=batch_id)
    }


def plans(ledger: Ledger, batch_id: int) -> dict[int, list[PlannedOffsets]]:
    """Return, by stream id, when the offsets of a stateful batch were planned, each time.

    A record is judged by the first time, so that it has the same fate again when a rewind lets it be loaded once more.
    """
    with ledger.transaction():
        rows = ledger.rows("list_plans", batch_id=batch_id)
    found: dict[int, list[PlannedOffsets]] = {}
    for row in rows:
        plan = PlannedOffsets(OffsetRange(row["start_offset"], row["end_offset"]), row["planned_at"])
        found.setdefault(row["stream_id"], []).append(plan)
    return found


def newest_fold(ledger: Ledger, pipeline: str) -> int:
    """Return the number of the batch that was folded last into the states of a pipeline, 0 before the first one.

    A job asks before it reads a state, and publishes with the answer: a key may come from a stream that its batch does not have.
    """
    with ledger.transaction():
        number: int = ledger.rows("find_newest_fold", pipeline=pipeline)[0]["seq"]
    return number


def versions(found: Mapping[int, Position]) -> dict[int, int]:
    """Return the versions of positions, by stream id: two readings are of the same state if these are equal."""
    return {stream_id: position.version for stream_id, position in found.items()}
