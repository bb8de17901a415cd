"""What a DAG run has published, for those who wait for it."""

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange
from tideline.domain.states import BatchKind
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What became of one range's records when its batch was published."""

    range: NamedRange
    n_read: int
    n_written: int
    n_rejected: int
    n_filtered: int
    n_gap: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A batch with what became of it."""

    batch_id: int
    kind: BatchKind
    published_at: datetime
    """By the clock of the ledger's database."""
    ranges: tuple[Loaded, ...]


def published_by(ledger: Ledger, pipeline: str, run: Run) -> list[Publication]:
    """The batches of which an attempt of `run` is the one that was published, in order.

    A batch has one such attempt at most: of two runs that work on it, one finds it here.
    """
    with ledger.transaction():
        rows = ledger.rows("list_written_batches", pipeline=pipeline, dag_id=run.dag_id, run_id=run.run_id)
    return [
        Publication(
            batch_id=batch_id,
            kind=BatchKind(kind),
            published_at=published_at,
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
        for (batch_id, kind, published_at), pieces in groupby(rows, itemgetter("batch_id", "kind", "published_at"))
    ]
