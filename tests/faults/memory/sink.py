"""The sink of a pipeline, as the Spark job uses it. The driver's Python is the real one; rows that executors COPY are stored in memory."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from faults.memory.database import MemoryDatabase, Table
from faults.memory.ledger import MemoryLedger
from faults.memory.rows import StagedRow
from tideline.ledger.attempts import Attempt
from tideline.ledger.publishing import InsertOutput
from tideline.sinks import staging_tables
from tideline.sinks.postgres import insertion, target_table
from tideline.sinks.postgres.column_types import Column
from tideline.sinks.postgres.insertion import StagedRows
from tideline.sinks.postgres.target_table import Target


class MemorySink:
    """An output table in memory.

    Args:
        database: The database of the table.
        table: Its name with its schema.
        columns: The columns that the transform returns, in order.
        item: The column that distinguishes the rows of one record, where there may be several.
        unique: Columns that are each UNIQUE: of two rows with the same value the table refuses the later one at publication.
    """

    def __init__(
        self,
        database: MemoryDatabase,
        table: str,
        columns: tuple[str, ...],
        *,
        item: str | None = None,
        unique: tuple[str, ...] = (),
    ) -> None:
        schema, name = table.split(".")
        self._database = database
        described = tuple(Column(name=c, type_name="text", precision=None, scale=None, required=False) for c in columns)
        self.target = Target(schema=schema, table=name, columns=described, item=item)
        table_of = database.outputs.setdefault((schema, name), Table(columns, item, unique))
        self.key = table_of.key

    def create_staging(self, ledger: MemoryLedger, attempt: Attempt) -> str:
        """Create the attempt's staging table; return its name."""
        return target_table.create_staging(ledger, self.target, attempt)

    def copy(self, staging: str, task: int, rows: Iterable[tuple[int, int, tuple[Any, ...]]]) -> int:
        """Stage the rows of one Spark task, each with stream id, offset and values, in one transaction. Return how many.

        Raises:
            The staging table was dropped.
        """
        staged = [StagedRow(stream_id, offset, task, values) for stream_id, offset, values in rows]
        if staged:
            columns = tuple(column.name for column in self.target.columns)
            with MemoryLedger(self._database, actor="spark task") as ledger, ledger.transaction():
                ledger.copy(staging, columns, staged)
        return len(staged)

    def insert_output(self, attempt: Attempt, staging: str, tasks: Mapping[int, int]) -> InsertOutput:
        """Return the argument for `flow.publish`; `tasks` are the winners, with the number of rows that each has staged."""
        staged = StagedRows(target=self.target, attempt=attempt, table=staging, tasks=tasks)
        return partial(insertion.insert_output, staged=staged)

    def drop_staging(self, ledger: MemoryLedger, attempt: Attempt) -> None:
        """Drop the staging tables of this and earlier attempts, after the attempt has published."""
        staging_tables.drop(ledger, attempt)


def record(
    ledger: MemoryLedger,
    attempt: Attempt,
    *,
    counts: Iterable[Mapping[str, int]] = (),
    rejects: Iterable[tuple[Any, ...]] = (),
) -> None:
    """Store counts and rejects of one task as `tideline.records.staged_counts` does: rejects first, each kind in one transaction.

    Args:
        ledger: The task's session.
        attempt: The attempt that reads.
        counts: For each stream: stream_id, first_read, last_read, n_read, n_filtered, n_bytes.
        rejects: For each record: stream id, offset, step, reason, timestamp, key, value, headers.
    """
    names = ("stream_ids", "offsets", "steps", "reasons", "timestamps_ms", "keys", "values", "headers")
    if columns := [list(column) for column in zip(*sorted(rejects, key=lambda row: row[:2]), strict=True)]:
        with ledger.transaction():
            ledger.run("stage_rejects", attempt=attempt.attempt, **dict(zip(names, columns, strict=True)))
    if counted := sorted(counts, key=lambda count: count["stream_id"]):
        numbers = {name: [count[name] for count in counted] for name in counted[0] if name != "stream_id"}
        stream_ids = [count["stream_id"] for count in counted]
        with ledger.transaction():
            ledger.run("stage_counts", attempt=attempt.attempt, stream_ids=stream_ids, **numbers)
