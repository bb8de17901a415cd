"""Convert rows to the types of a table and COPY them to staging. Runs in the executors' Python.

Staged rows carry the id of their task, so those of a task that lost are left out when the attempt is published.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from tideline.records.kafka_metadata import stream_ids
from tideline.records.record_steps import Account, deletes
from tideline.records.row_bisection import isolate
from tideline.sinks.postgres.column_types import Column, converted
from tideline.sinks.postgres.copying import Copier
from tideline.sinks.postgres.fitting import STAGED_STREAM, STAGED_TASK
from tideline.sinks.postgres.target_table import Target, deletions_name
from tideline.sinks.sink import RefusedError, StagingPlace, Winner


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStage:
    """Writes rows to the attempt's staging table, and stores the records of refused rows as rejects."""

    place: StagingPlace
    target: Target
    table: str

    def store(self, tables: Iterable[pa.Table], recorder: Account, task: int) -> Winner:
        """COPY all tables. Return the id of the task and the number of rows that it has staged.

        Each COPY commits by itself. Rows of a task that fails carry the id of a task that never wins, so they are
        ignored.
        """
        n_rows = 0
        with self._copier(self.table) as copier, ExitStack() as more:
            of_deletions = (
                more.enter_context(self._copier(deletions_name(self.table))) if self.target.deletes else copier
            )
            for table in tables:
                is_deletion = deletes(table)
                columns = self.target.deletion_columns if is_deletion else self.target.columns
                n_rows += self._store(table, of_deletions if is_deletion else copier, columns, task, recorder)
        return Winner(task, n_rows)

    def _copier(self, table: str) -> Copier:
        return Copier(self.place.ledger_url, table, self.target.table)

    def _store(self, table: pa.Table, copier: Copier, columns: Sequence[Column], task: int, recorder: Account) -> int:
        """COPY one table, and return how many rows were staged."""
        fitting, misfits = isolate(
            table, lambda part: (part, self._fit(part, columns, task)), (RefusedError,), suspect=None
        )
        for misfit in misfits:
            recorder.reject("store", misfit.row.column("kafka").combine_chunks(), [misfit.reason])
        if not fitting:
            return 0
        inputs, rows = (pa.concat_tables(parts) for parts in zip(*fitting, strict=True))
        n_staged, refused = copier.copy(rows)
        if refused:
            kafka = inputs.column("kafka").combine_chunks().take(pa.array(refused, pa.int64()))
            recorder.reject("store", kafka, refused.values())
        return n_staged

    def _fit(self, table: pa.Table, wanted: Sequence[Column], task: int) -> pa.Table:
        """Convert rows to the columns and types that COPY needs.

        Raises:
            RefusedError: A value does not fit its column.
        """
        columns = {}
        for column in wanted:
            try:
                columns[column.name] = converted(table.column(column.name), column)
            except (pa.ArrowException, ValueError) as error:
                raise RefusedError(f"column {column.name}: {error}") from error
        kafka = table.column("kafka").combine_chunks()
        columns["kafka_offset"] = kafka.field("offset")
        columns[STAGED_STREAM] = stream_ids(kafka, self.place.streams)
        columns[STAGED_TASK] = pa.repeat(pa.scalar(task, pa.int64()), len(table))
        return pa.table(columns)
