"""Keep what the tasks of an attempt stage until it publishes: their counts and rejects here, their rows in tables of the sinks.

Called by tasks of Spark, by sinks, and by `flow.writing`.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg2.extras import DictRow
from psycopg2.sql import SQL, Identifier

from tideline.ledger.connection import Ledger
from tideline.statements import statement

_REJECT = ("stream_ids", "offsets", "steps", "reasons", "timestamps_ms", "keys", "values", "headers")


def stage_counts(
    ledger: Ledger, attempt: UUID, stream_ids: Sequence[int], counted: Mapping[str, Sequence[int]]
) -> None:
    """Store what a task has counted in each of its streams. A task that runs again overwrites its count."""
    with ledger.transaction():
        ledger.run("stage_counts", attempt=attempt, stream_ids=stream_ids, **counted)


def stage_rejects(ledger: Ledger, attempt: UUID, rejects: Sequence[Sequence[Any]]) -> None:
    """Store records that a task has rejected: of each its stream, offset, step, reason, timestamp in ms, key, value and headers.

    Give them in the order of streams and offsets. After a `frame`, two tasks may reject rows of the same records, and would deadlock in
    different orders.
    """
    columns = (list(column) for column in zip(*rejects, strict=True))
    with ledger.transaction():
        ledger.run("stage_rejects", attempt=attempt, **dict(zip(_REJECT, columns, strict=True)))


def count_rejects(ledger: Ledger, attempt_id: int) -> DictRow:
    """Return how many records an attempt has read (`n_read`) and rejected (`n_rejected`), and the most common `reason`."""
    with ledger.transaction():
        return ledger.rows("count_rejects", attempt_id=attempt_id)[0]


def let_stager_in(ledger: Ledger, table: str) -> None:
    """Let the role of the executors, if it is another one, fill a staging table that this session has created in its transaction."""
    for row in ledger.rows("find_stager"):
        names = {"staging": Identifier("tideline_staging", table), "stager": Identifier(row["name"])}
        ledger.run_sql(SQL(statement("tideline.ledger", "let_stager_in")).format(**names), {})
