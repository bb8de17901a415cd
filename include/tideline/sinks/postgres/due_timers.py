"""Which timers come at the end of a batch: those that the watermarks of its streams have reached, of stored states and of staged ones."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from psycopg2.sql import Composed, Identifier

from tideline.ledger import publishing
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.folding import SUFFIX
from tideline.ledger.refused_publications import refuse
from tideline.sinks.postgres.target_table import sink_sql
from tideline.sinks.staging_tables import STAGING_SCHEMA


class Reached(NamedTuple):
    """The watermark of a stream after the batch."""

    topic: str
    partition: int
    at: datetime
    keeps: bool
    """Whether the stored states of the stream still count, because it does not begin anew."""


class Due(NamedTuple):
    """Keys of a stream whose timers have come. A partition has a stream for each incarnation of its topic."""

    stream_id: int
    stream: str
    """Topic and partition, as in `orders/3`."""
    at: datetime
    """The watermark that they have reached."""
    keeps: bool
    n_keys: int


def count_due(
    ledger: Ledger, attempt: Attempt, table: str, reached: Sequence[Reached], folding: Sequence[int]
) -> list[Due]:
    """Return which streams have keys whose timers have come, after what the attempt has staged in `table` is complete.

    Args:
        ledger: The session of the driver.
        attempt: The attempt.
        table: Its staging table of rows.
        reached: The watermarks after the batch.
        folding: The winning tasks of the first phase.

    Raises:
        SupersededError: Another attempt holds the batch, or has published it and dropped what this one has staged.
    """
    staging = Identifier(STAGING_SCHEMA, table + SUFFIX)
    bound = {
        "pipeline": attempt.pipeline,
        "topics": [one.topic for one in reached],
        "partitions": [one.partition for one in reached],
        "reached": [one.at for one in reached],
        "keeps": [one.keeps for one in reached],
        "last": max((one.at for one in reached), default=None),
        "folding": list(folding),
    }
    rows = []
    with ledger.transaction():
        found = publishing.holder(ledger, attempt)
        if found is None:
            ledger.run_sql(sink_sql("index_staged_states").format(staging=staging), {})
            rows = ledger.rows_of(sink_sql("count_due").format(staging=staging), bound)
            if rows:
                ledger.run_sql(sink_sql("index_due").format(staging=staging), {})
    if found is not None:
        raise refuse(ledger, attempt, found)
    return [
        Due(row["stream_id"], f"{row['topic']}/{row['partition']}", row["at"], row["keeps"], row["n_keys"])
        for row in rows
    ]


def select_due(table: str) -> Composed:
    """Return the statement that selects one page of the keys of a stream whose timers have come."""
    return sink_sql("select_due").format(staging=Identifier(STAGING_SCHEMA, table + SUFFIX))
