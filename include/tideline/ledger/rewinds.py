"""Undo batches of a stateful pipeline, newest first, within one transaction. Called by `flow.rewind`, under the pipeline's lock.

The law: a rewind restores state, positions, output, rejects and coverage to what they were after a batch, or nothing.
The database checks each batch that is undone against what it has kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from psycopg2.sql import SQL, Identifier

from tideline.domain.offsets import OffsetRange
from tideline.errors import FatalError
from tideline.ledger import reservations
from tideline.ledger.connection import Ledger
from tideline.statements import statement


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedBatch:
    """A batch that is folded into the state."""

    batch_id: int
    has_undo: bool
    """Whether it can be undone: its undo was not pruned."""
    ranges: dict[int, OffsetRange]
    """By stream id."""
    labels: dict[int, str]
    """By stream id, topic and partition, as in `orders/3`."""


def after(ledger: Ledger, pipeline: str, to_batch: int | None) -> list[FoldedBatch]:
    """Return the batches that were folded after a batch, newest first; all of them if `to_batch` is None.

    Raises:
        FatalError: The batch is not folded into the state.
    """
    seq = 0
    if to_batch is not None:
        row = ledger.row("find_folded", pipeline=pipeline, batch_id=to_batch)
        if row is None:
            raise FatalError(
                f"{pipeline}: batch {to_batch} is not folded into the state, or was rewound",
                next_step=f"choose one that is: tideline batches {pipeline} --state advanced; 0 is the beginning; nothing was changed",
                entry="cannot-rewind",
            )
        seq = row["seq"]
    found: dict[int, FoldedBatch] = {}
    for row in ledger.rows("list_folded", pipeline=pipeline, after=seq):
        batch_id = row["batch_id"]
        one = found.setdefault(
            batch_id, FoldedBatch(batch_id=batch_id, has_undo=row["undo"] == "kept", ranges={}, labels={})
        )
        one.ranges[row["stream_id"]] = OffsetRange(row["start_offset"], row["end_offset"])
        one.labels[row["stream_id"]] = f"{row['topic']}/{row['partition']}"
    return list(found.values())


def undo(ledger: Ledger, pipeline: str, batch_ids: Iterable[int], *, to_batch: int | None, reason: str) -> int:
    """Undo the batches that were folded after `to_batch`, newest first. Return the number of the rewind.

    Their offsets become holes that are loaded again, and their rejects go. Their rows in the output stay: `delete_rows`.
    """
    given = list(batch_ids)
    rewind_id: int = ledger.rows("begin_rewind", pipeline=pipeline, to_batch=to_batch, reason=reason)[0]["rewind_id"]
    for batch_id in given:
        ledger.run("undo_states", pipeline=pipeline, batch_id=batch_id)
        ledger.run("undo_positions", batch_id=batch_id)
        if ledger.run("apply_undo", batch_id=batch_id) != 1:
            raise RuntimeError(f"the undo of batch {batch_id} is gone, under the lock of its pipeline")
    ledger.run("delete_undo", batch_ids=given)
    ledger.rows("supersede_rewound", batch_ids=given)
    ledger.run("leave_rewound", batch_ids=given, reason=reason)
    ledger.run("delete_rewound_rejects", batch_ids=given)
    return rewind_id


def delete_rows(ledger: Ledger, table: str, batch_ids: Iterable[int]) -> int:
    """Delete the rows of batches from the output, `schema.table`. Return how many there were."""
    query = SQL(statement("tideline.ledger", "delete_rewound_rows"))
    return ledger.run_sql(query.format(target=Identifier(*table.split("."))), {"batch_ids": list(batch_ids)})


def prune(ledger: Ledger, pipeline: str, keep: int) -> list[str]:
    """Delete the undo of all batches but the newest `keep`, which can then no longer be rewound. Return a line if there was any."""
    with ledger.transaction():
        if not reservations.lock_known(ledger, pipeline):  # a rewind beside it would miss undo that it has just listed
            return []
        pruned = [row["batch_id"] for row in ledger.rows("prune_undo", pipeline=pipeline, most=keep)]
        if pruned:
            ledger.run("delete_undo", batch_ids=pruned)
    return [f"{pipeline}: undo of {len(pruned)} batches deleted; the last {keep} can be rewound"] if pruned else []
