"""Turns of stateful batches: which one is folded next. Called by plans, and by `attempts.claim` under the batch's lock.

The law: the records of a stream are folded in the order of their offsets. The database refuses a publication out of
turn. To claim in turn saves the work of a batch that could not be published.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise

from psycopg2.extras import DictRow

from tideline.domain.offsets import OffsetRange
from tideline.errors import NeedsOperatorError, RetryableError
from tideline.ledger.connection import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A batch that is folded before the one that was claimed, and that a run is about to publish."""

    batch_id: int
    holder: str


def wait_for(ledger: Ledger, batch: DictRow, stale_after_seconds: float) -> Behind | None:
    """Return the batch to wait for, or None if it is the turn of `batch`, which `lock_batch` has returned.

    Raises:
        RetryableError: A batch before it is open, and no process has written it for `stale_after_seconds`. Or no batch has the offsets before it.
        NeedsOperatorError: Its records are folded already, so that it can never be published.
    """
    before = ledger.rows("list_before", pipeline=batch["pipeline"], batch_id=batch["batch_id"])
    for row in before:
        if row["silent_seconds"] > stale_after_seconds:
            raise _left(batch, row)
    for row in before:
        return Behind(batch_id=row["batch_id"], holder=_holder(row))
    _check_positions(batch, ledger.rows("list_positions", batch_id=batch["batch_id"]))
    return None


def _holder(row: DictRow) -> str:
    run = f"{row['dag_id']} {row['run_id']}"
    if row["state"] != "writing":
        return f"{run}; it is {row['state']}"
    return f"{run} {row['task_id']} try {row['try_number']} (pid {row['pid']} on {row['host']})"


def _left(batch: DictRow, row: DictRow) -> RetryableError:
    return RetryableError(
        f"{batch['pipeline']} batch {batch['batch_id']}: batch {row['batch_id']} is folded before it; that one is {row['state']}, and its run "
        f"{row['dag_id']} {row['run_id']} has given no sign for {row['silent_seconds']:.0f} s",
        next_step=f"write that one first: tideline retry {row['batch_id']} --reason ...; then run the task again",
        entry="state-is-folded-in-order",
    )


def _check_positions(batch: DictRow, rows: Iterable[DictRow]) -> None:
    for row in rows:
        if row["is_next"]:
            continue
        found = (
            f"{batch['pipeline']} batch {batch['batch_id']}: its range of {row['topic']}/{row['partition']} begins at {row['start_offset']}, "
            f"and the state is folded up to {row['next_offset']}"
        )
        if row["next_offset"] > row["start_offset"]:
            raise NeedsOperatorError(
                f"{found}: its records are folded already",
                next_step=f"give it up: tideline abandon {batch['batch_id']} --reason ...",
                entry="state-is-folded-in-order",
            )
        raise RetryableError(
            f"{found}: no open batch has the offsets in between",
            next_step=f"start a run of DAG {batch['pipeline']}, or wait for the next one: it plans them, and loads them first",
            entry="state-is-folded-in-order",
        )


def in_order(ledger: Ledger, batch_ids: Iterable[int]) -> list[int]:
    """Return batches of a stateful pipeline in the order in which they are folded: on each stream by offsets, and otherwise by id."""
    given = sorted(set(batch_ids))
    sorter = TopologicalSorter[int](dict.fromkeys(given, ()))
    rows = ledger.rows("list_lower_bounds", batch_ids=given)
    for one, following in pairwise(rows):
        if one["stream_id"] == following["stream_id"]:
            sorter.add(following["batch_id"], one["batch_id"])
    sorter.prepare()
    ordered = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        ordered += ready
        sorter.done(*ready)
    return ordered


def unfolded(ledger: Ledger, pipeline: str) -> list[str]:
    """Return, as `orders/3 [0, 10)`, the first offsets of each stream that were loaded without being folded: before the pipeline had a state."""
    return [
        f"{row['topic']}/{row['partition']} {OffsetRange(row['start_offset'], row['end_offset'])}"
        for row in ledger.rows("list_loaded_unfolded", pipeline=pipeline)
    ]


def rewound(ledger: Ledger, pipeline: str) -> list[tuple[int, OffsetRange]]:
    """Return the offsets that a rewind has left to be loaded again and that no batch has reserved, each range with its stream id."""
    return [
        (row["stream_id"], OffsetRange(row["start_offset"], row["end_offset"]))
        for row in ledger.rows("list_rewound", pipeline=pipeline)
    ]
