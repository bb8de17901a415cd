"""Which records an output has to hold, and which of them a table of the ledger's database holds. Read-only; for `tideline doctor`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg2.sql import SQL, Identifier

from tideline.domain.offsets import OffsetRange
from tideline.ledger.connection import Ledger
from tideline.statements import statement

_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class Published:
    """A range of a published batch that no later one has taken anything of."""

    batch_id: int
    topic: str
    topic_id: str
    partition: int
    offsets: OffsetRange
    n_written: int
    """How many records of it have rows under this batch."""

    @property
    def key(self) -> tuple[int, str, int]:
        """Return what its rows have in common. A batch has one range of each partition of a topic."""
        return self.batch_id, self.topic_id, self.partition

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} {self.offsets}"


def published(ledger: Ledger, pipeline: str, output: str | None, *, most: int | None) -> list[Published]:
    """Return the ranges of the newest `most` batches, the newest first; of all batches if it is None.

    Args:
        ledger: In a transaction.
        pipeline: Batches of a pipeline with states are left out: what they write is no row for each record.
        output: The outside sink that they were committed to. None for a table in the ledger's database.
        most: How many batches to look at.
    """
    rows = ledger.rows("view_written_ranges", pipeline=pipeline, output=output, most=most)
    return [
        Published(
            row["batch_id"],
            row["topic"],
            row["topic_id"],
            row["partition"],
            OffsetRange(row["start_offset"], row["end_offset"]),
            row["n_written"],
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class Sent:
    """A published batch that was committed to an output which has no numbers of batches, such as a topic."""

    batch_id: int
    n_rows: int
    position: Mapping[str, Any] = field(hash=False)
    """Where the output ended before the commit, in the form of its sink."""
    age_seconds: float = field(compare=False)
    """Since it was about to be committed, by the database's clock."""


def sent(ledger: Ledger, pipeline: str, output: str, *, most: int | None) -> list[Sent]:
    """Return the `most` batches with rows that were committed to an output last, the last one first; all if it is None. Within a transaction."""
    rows = ledger.rows("view_sent_batches", pipeline=pipeline, output=output, most=most)
    return [Sent(row["batch_id"], row["n_rows"], row["position"], row["age_seconds"]) for row in rows]


def slices(ranges: Sequence[Published]) -> Iterator[list[Published]]:
    """Divide ranges, so that each part has about a million records: a range of more is a part of its own."""
    part: list[Published] = []
    n_written = 0
    for one in ranges:
        if part and n_written + one.n_written > _AT_ONCE:
            yield part
            part, n_written = [], 0
        part.append(one)
        n_written += one.n_written
    if part:
        yield part


def found_otherwise(ledger: Ledger, table: str, ranges: Sequence[Published]) -> Mapping[Published, int]:
    """Return the ranges of which a table, given as schema.table, holds another number of records, with that number."""
    query = SQL(statement("tideline.ledger", "view_missing_rows")).format(table=Identifier(*table.split(".")))
    keyed = {one.key: one for one in ranges}
    asked = {
        "batch_ids": [one.batch_id for one in ranges],
        "topic_ids": [one.topic_id for one in ranges],
        "partitions": [one.partition for one in ranges],
        "starts": [one.offsets.start for one in ranges],
        "ends": [one.offsets.end for one in ranges],
        "n_written": [one.n_written for one in ranges],
    }
    rows = ledger.rows_of(query, asked)
    return {keyed[row["batch_id"], row["topic_id"], row["partition"]]: row["n_found"] for row in rows}


def is_empty(ledger: Ledger, table: str) -> bool:
    """Return whether a table has no row."""
    query = SQL(statement("tideline.ledger", "view_any_row")).format(table=Identifier(*table.split(".")))
    return not ledger.rows_of(query, {})
