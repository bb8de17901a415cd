"""Read and update the outbox: which published batches have been announced as asset events. Called by `flow.announce`.

The law: each published batch is announced once. It enters the outbox in the transaction that publishes it, and leaves
it when its event was seen.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange
from tideline.domain.states import BatchKind
from tideline.ledger.connection import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcer:
    """The task of a DAG run that announces batches.

    Its tries are not distinguished: Airflow accepts only the events of its current try.
    """

    dag_id: str
    run_id: str
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A published batch whose event is not confirmed yet."""

    batch_id: int
    attempt: UUID
    """The attempt that published it.

    Batch ids are used again after the ledger was restored to an earlier moment; this uuid is not.
    """
    published_at: datetime
    """By the clock of the ledger's database."""
    n_tries: int
    announcer: Announcer | None
    """The last task that took it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The counts of one range when its batch was published."""

    range: NamedRange
    n_read: int
    n_written: int
    n_rejected: int
    n_filtered: int
    n_gap: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBatch:
    """A published batch with the counts of its ranges."""

    batch_id: int
    kind: BatchKind
    attempt: UUID
    published_at: datetime
    took: timedelta | None
    """From the start to the end of the attempt that published it; None if `upkeep` has deleted the attempt."""
    ranges: tuple[Loaded, ...]


def waiting(ledger: Ledger, pipeline: str) -> list[Waiting]:
    """Return the published batches whose event is not confirmed yet, in order."""
    with ledger.transaction():
        rows = ledger.rows("list_waiting", pipeline=pipeline)
    return [
        Waiting(
            batch_id=row["batch_id"],
            attempt=row["attempt"],
            published_at=row["published_at"],
            n_tries=row["n_tries"],
            announcer=Announcer(dag_id=row["dag_id"], run_id=row["run_id"], task_id=row["task_id"])
            if row["n_tries"]
            else None,
        )
        for row in rows
    ]


def confirm(ledger: Ledger, seen: Collection[Waiting]) -> None:
    """Record that the events of these batches were seen."""
    if seen:
        with ledger.transaction():
            ledger.run("confirm_announced", batch_ids=[batch.batch_id for batch in seen])


def take(ledger: Ledger, wanted: Collection[Waiting], announcer: Announcer) -> list[PublishedBatch]:
    """Take batches for `announcer` to announce. Return those that no other task has taken since they were listed."""
    if not wanted:
        return []
    with ledger.transaction():
        taken = ledger.rows(
            "take_waiting",
            batch_ids=[batch.batch_id for batch in wanted],
            n_tries=[batch.n_tries for batch in wanted],
            dag_id=announcer.dag_id,
            run_id=announcer.run_id,
            task_id=announcer.task_id,
        )
        return _publications(ledger, [row["batch_id"] for row in taken])


def of_batches(ledger: Ledger, batch_ids: Iterable[int]) -> list[PublishedBatch]:
    """Return those of the batches that are published, with their counts, in order of publication."""
    with ledger.transaction():
        return _publications(ledger, batch_ids)


def _publications(ledger: Ledger, batch_ids: Iterable[int]) -> list[PublishedBatch]:
    rows = ledger.rows("list_publications", batch_ids=list(batch_ids))
    return [
        PublishedBatch(
            batch_id=batch_id,
            kind=BatchKind(kind),
            attempt=attempt,
            published_at=published_at,
            took=ended_at - started_at if ended_at else None,
            ranges=tuple(
                Loaded(
                    range=NamedRange(
                        row["topic"], row["partition"], OffsetRange(row["start_offset"], row["end_offset"])
                    ),
                    **{count: row[count] for count in ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")},
                )
                for row in pieces
            ),
        )
        for (batch_id, kind, attempt, published_at, started_at, ended_at), pieces in groupby(
            rows, itemgetter("batch_id", "kind", "attempt", "published_at", "started_at", "ended_at")
        )
    ]
