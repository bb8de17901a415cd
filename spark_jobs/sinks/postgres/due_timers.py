"""Which timers come at the end of a batch: those that the watermarks of its streams have reached, of stored states and of staged ones."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from psycopg2.sql import SQL, Composed, Identifier

from spark_jobs.sinks.postgres.target_table import sink_sql
from spark_jobs.sinks.staging_tables import STAGING_SCHEMA
from tideline.ledger import attempts, publishing
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.folding import SUFFIX


class Reached(NamedTuple):
    """The watermark of a stream after the batch."""

    topic: str
    partition: int
    at: datetime
    keeps: bool
    """Whether the stored states of the stream still count, because it does not begin anew."""

    @property
    def stream(self) -> str:
        """Return topic and partition, as in `orders/3`."""
        return f"{self.topic}/{self.partition}"


def due_bound(pipeline: str, reached: Iterable[Reached], folding: Sequence[int]) -> dict[str, Any]:
    """Return the parameters that say which timers have come."""
    given = list(reached)
    return {
        "pipeline": pipeline,
        "topics": [one.topic for one in given],
        "partitions": [one.partition for one in given],
        "reached": [one.at for one in given],
        "keeps": [one.keeps for one in given],
        "last": max((one.at for one in given), default=None),
        "folding": list(folding),
    }


def count_due(ledger: Ledger, attempt: Attempt, table: str, bound: dict[str, Any]) -> int:
    """Return how many keys have timers that have come, after what the attempt has staged in `table` is complete.

    Raises:
        SupersededError: Another attempt holds the batch, or has published it and dropped what this one has staged.
    """
    staging = Identifier(STAGING_SCHEMA, table + SUFFIX)
    n_keys = 0
    with ledger.transaction():
        found = publishing.holder(ledger, attempt)
        if found is None:
            ledger.run_sql(sink_sql("index_staged_states").format(staging=staging), {})
            n_keys = ledger.rows_of(sink_sql("count_due").format(due=_due(table)), bound)[0]["n_keys"]
    if found is not None:
        raise attempts.refuse(ledger, attempt, found)
    return n_keys


def select_due(table: str) -> Composed:
    """Return the statement that selects one part of the keys whose timers have come."""
    return sink_sql("select_due").format(due=_due(table))


def _due(table: str) -> Composed:
    staging = Identifier(STAGING_SCHEMA, table + SUFFIX)
    return SQL("({})").format(sink_sql("list_due").format(staging=staging))
