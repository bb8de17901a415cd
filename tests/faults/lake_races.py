"""Processes that commit to one Delta table: two at the same moments, or one that is killed. Runs in each of them."""

from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import NamedTuple
from uuid import UUID

from identities import batch
from loads.lake_tables import Lake, Table, own
from tideline.errors import SupersededError
from tideline.sinks.delta.delta_table import DeltaOutput

PATIENCE_S = 300.0


class Outcome(NamedTuple):
    """What one process did to one batch."""

    attempt: UUID | None
    """The attempt that it committed as; None if it was refused, or only fenced."""
    found: UUID | None
    """For a fence: the attempt that had committed."""


def older(lake: Lake, start: Barrier, n_batches: int) -> list[Outcome]:
    """Commit each batch as its first attempt."""
    return [_commit(lake, start, batch_id, 1) for batch_id in range(n_batches)]


def newer(lake: Lake, start: Barrier, n_batches: int) -> list[Outcome]:
    """Commit the even batches as their second attempt, without a fence. Only fence the odd ones."""
    return [
        _fence(lake, start, batch_id) if batch_id % 2 else _commit(lake, start, batch_id, 2)
        for batch_id in range(n_batches)
    ]


def endless(lake: Lake, said: Connection, batch_id: int) -> None:
    """Commit this batch and those behind it as their first attempt, and send the number of each that is committed."""
    for number in count(batch_id):
        Table(DeltaOutput(location=lake.location())).commit(number, own(1), [number])
        said.send(number)


def _commit(lake: Lake, start: Barrier, batch_id: int, fence: int) -> Outcome:
    table, attempt = Table(DeltaOutput(location=lake.location())), own(fence)
    added = [table.staged(batch_id, fence, [batch_id])]
    start.wait(PATIENCE_S)
    try:
        table.output.commit(batch(batch_id), attempt, lambda _: added, ranges="")
    except SupersededError:
        return Outcome(None, None)
    return Outcome(attempt.attempt, None)


def _fence(lake: Lake, start: Barrier, batch_id: int) -> Outcome:
    output = DeltaOutput(location=lake.location())
    start.wait(PATIENCE_S)
    receipt = output.fence(batch(batch_id), 2)
    return Outcome(None, receipt.attempt if receipt else None)
