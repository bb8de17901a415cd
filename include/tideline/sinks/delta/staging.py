"""Convert rows to the types of the table and write them to Parquet files in the attempt's folder. Runs in the executors' Python."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2.sql import SQL

from tideline.errors import FatalError
from tideline.ledger.connection import Ledger
from tideline.records.kafka_metadata import stream_ids
from tideline.records.record_steps import Account
from tideline.records.row_bisection import isolate
from tideline.sinks.delta import delta_files
from tideline.sinks.delta.column_types import converted
from tideline.sinks.delta.delta_log import Location
from tideline.sinks.delta.delta_table import COORDINATES
from tideline.sinks.delta.parquet_files import FileWriter, as_text
from tideline.sinks.sink import RefusedError, StagingPlace, Winner
from tideline.statements import statement


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTableStage:
    """Writes rows to files that are not committed yet, and stores the records of rows that do not fit as rejects."""

    place: StagingPlace
    location: Location
    columns: pa.Schema
    """The columns that the transform fills."""
    partition_by: tuple[str, ...]
    batch_id: int
    folder: str
    """The attempt's, relative to that of the table."""
    topic_ids: Mapping[int, str]
    """By stream id."""
    redrives: bool
    """Whether each row belongs to the batch that had rejected its record."""

    def store(self, tables: Iterable[pa.Table], recorder: Account, task: int) -> Winner:
        """Write all tables. Return the id of the task, the number of rows, and its files as text.

        Files carry the id of their task, so that those of a task that loses can be told from others.
        """
        files = FileWriter(
            delta_files.filesystem(self.location),
            lambda number: f"{self.folder}/{task}-{number}.parquet",
            self.partition_by,
        )
        for table in tables:
            fitting, misfits = isolate(table, self._fit, (RefusedError,), suspect=None)
            for misfit in misfits:
                recorder.reject("store", misfit.row.column("kafka").combine_chunks(), [misfit.reason])
            for rows in fitting:
                files.write(rows)
        done = files.close()
        return Winner(task, sum(file.n_rows for file in done), as_text(done))

    def _fit(self, table: pa.Table) -> pa.Table:
        """Convert rows to the columns and types of the table.

        Raises:
            RefusedError: A value does not fit its column.
        """
        columns = {}
        for column in self.columns:
            try:
                columns[column.name] = converted(table.column(column.name), column)
                if column.name in self.partition_by and pa.types.is_string(column.type):
                    _no_empty_text(columns[column.name])
            except (pa.ArrowException, ValueError) as error:
                raise RefusedError(f"column {column.name}: {error}") from error
        kafka = table.column("kafka").combine_chunks()
        streams = stream_ids(kafka, self.place.streams)
        ids = pc.index_in(streams, value_set=pa.array(list(self.topic_ids), pa.int64()))
        columns["kafka_topic_id"] = pa.array(list(self.topic_ids.values()), pa.string()).take(ids)
        columns["kafka_partition"] = kafka.field("partition")
        columns["kafka_offset"] = kafka.field("offset")
        columns["tideline_batch"] = self._batches(streams, kafka.field("offset"))
        return pa.table(columns, schema=pa.schema([*self.columns, *COORDINATES]))

    def _batches(self, streams: pa.Array, offsets: pa.Array) -> pa.Array:
        """Return the batch that each row belongs to: for a re-drive the one that had rejected its record."""
        if not self.redrives:
            return pa.repeat(pa.scalar(self.batch_id, pa.int64()), len(streams))
        wanted = list(zip(streams.to_pylist(), offsets.to_pylist(), strict=True))
        with Ledger(self.place.ledger_url, actor="spark task") as ledger, ledger.transaction():
            rows = ledger.rows_of(
                SQL(statement("tideline.sinks.delta", "list_rejecting_batches")),
                {
                    "stream_ids": [stream for stream, _ in wanted],
                    "offsets": [offset for _, offset in wanted],
                    "batch_id": self.batch_id,
                },
            )
        found = {(row["stream_id"], row["kafka_offset"]): row["batch_id"] for row in rows}
        if unknown := next((record for record in wanted if record not in found), None):
            raise FatalError(
                f"the transform returned a row of stream {unknown[0]} offset {unknown[1]}, which the batch does not read",
                next_step="let transform.py return the column `kafka` unchanged",
                entry="transform",
            )
        return pa.array([found[record] for record in wanted], pa.int64())


def _no_empty_text(values: pa.ChunkedArray) -> None:
    """Refuse an empty text: as a partition's value Delta reads it as null."""
    if pc.any(pc.equal(values, "")).as_py():
        raise ValueError("an empty text cannot be the value of a partition")
