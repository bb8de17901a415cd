"""Count the fields of records that no column takes, by attempt.

Called by tasks of Spark.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from tideline.domain.schemas import Part
from tideline.ledger.connection import Ledger


class CountedField(NamedTuple):
    """What a task has seen of one field."""

    part: Part
    name: str
    n_records: int
    stream_id: int
    record_offset: int
    """Where one of the records is."""


def count_fields(ledger: Ledger, attempt: UUID, task: str, fields: Sequence[CountedField]) -> None:
    """Add what a task has counted.

    Args:
        ledger: The ledger, as a role for executors.
        attempt: The number of the attempt.
        task: What a second run of the task has in common with the first: where its first record is.
        fields: The fields, each once.
    """
    columns = zip(*fields, strict=True)
    names = ("parts", "names", "counts", "stream_ids", "record_offsets")
    bound = {name: list(column) for name, column in zip(names, columns, strict=True)}
    with ledger.transaction():
        ledger.rows("count_fields", attempt=attempt, task=task, **bound)
