"""One task of a stateful pipeline at the ledger's database: reads states, and COPYs rows and states to staging.

As with rows, what is staged carries the id of its task, and what a task that lost has staged is left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
from psycopg2.extras import DictRow

from tideline.errors import FatalError
from tideline.ledger.connection import Ledger
from tideline.ledger.folding import SUFFIX
from tideline.sinks.postgres.column_types import Column, converted
from tideline.sinks.postgres.copying import Copier
from tideline.sinks.postgres.due_timers import Due, select_due
from tideline.sinks.postgres.fitting import STAGED_EXPIRED, STAGED_STREAM, STAGED_TASK
from tideline.sinks.postgres.target_table import Target, sink_sql
from tideline.sinks.sink import StagingPlace
from tideline.sinks.staging_tables import STAGING_SCHEMA
from tideline.state.arrow_records import row_columns
from tideline.state.folding import Folded
from tideline.state.key_state import Kept, Row, Stored
from tideline.state.rules import Rules

_AT_ONCE = 10_000
_BYTES_AT_ONCE = 8 << 20


@dataclass(slots=True, kw_only=True)
class StateSession:
    """What one task reads and stages."""

    place: StagingPlace
    pipeline: str
    target: Target
    table: str
    rules: Rules
    ledger: Ledger
    copier: Copier
    task: int
    phase: int
    n_rows: int = 0
    n_expired: int = 0
    """Rows that timers have made."""
    n_states: int = 0
    _rows: list[Row] = field(default_factory=list)
    _kept: list[Kept] = field(default_factory=list)
    _bytes: int = 0

    def stored(self, keys: Sequence[str]) -> dict[str, Stored]:
        """Return the stored states of keys; none for a key without one."""
        if not keys:
            return {}
        with self.ledger.transaction():
            rows = self.ledger.rows_of(sink_sql("select_states"), {"pipeline": self.pipeline, "keys": list(keys)})
        return {row["key"]: _stored(row, row["stream_id"], f"{row['topic']}/{row['partition']}") for row in rows}

    def due(
        self, streams: Iterable[Due], folding: Sequence[int], part: int, n_parts: int, at_once: int
    ) -> Iterator[tuple[str, Stored]]:
        """Yield the keys of one part whose timers have come, stored ones and staged ones, `at_once` of them in memory.

        Each page is a transaction of its own. Between two of them the processor of the author runs, for as long as it needs,
        and the server ends a session that leaves a transaction idle. What changes meanwhile makes the publication fail.
        """
        query = select_due(self.table)
        for one in streams:
            bound = {"folding": list(folding), "part": part, "n_parts": n_parts, "at_once": at_once}
            bound |= {"stream_id": one.stream_id, "at": one.at, "keeps": one.keeps}
            after_at: datetime | str = "-infinity"
            after_key, is_last = "", False
            while not is_last:
                with self.ledger.transaction():
                    rows = self.ledger.rows_of(query, {**bound, "after_at": after_at, "after_key": after_key})
                for row in rows:
                    yield row["key"], _stored(row, one.stream_id, one.stream)
                is_last = len(rows) < at_once
                if rows:
                    after_at, after_key = rows[-1]["expires_at"], rows[-1]["key"]

    def put(self, folded: Folded) -> None:
        """Stage rows and states, later if they are few."""
        self._rows += folded.rows
        # A task that has folded a bucket gives all its states, hundreds of megabytes if they are large.
        for one in folded.kept:
            self._kept.append(one)
            self._bytes += len(one.value or b"")
            self._flush_if_many()
        self._flush_if_many()

    def _flush_if_many(self) -> None:
        if len(self._rows) + len(self._kept) >= _AT_ONCE or self._bytes >= _BYTES_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """COPY what was put.

        Raises:
            FatalError: The table refuses a row. The state has folded its record, so the record cannot be a reject any more.
        """
        if self._rows:
            _, refused = self.copier.copy(self._staged_rows())
            for number, reason in refused.items():
                raise refused_row(self.target, self._described(self._rows[number]), reason)
        if self._kept:
            self.copier.wake()
            with self.copier.connection.cursor() as cursor:
                cursor.adbc_ingest(
                    self.table + SUFFIX, self._staged_states(), mode="append", db_schema_name=STAGING_SCHEMA
                )
        self.n_rows += len(self._rows)
        self.n_expired += sum(row.has_expired for row in self._rows)
        self.n_states += len(self._kept)
        self._rows, self._kept, self._bytes = [], [], 0

    def _staged_rows(self) -> pa.Table:
        given = pa.table(row_columns(self._rows, self.rules))
        columns = {column.name: self._fitting(given, column) for column in self.target.columns}
        columns["kafka_offset"] = pa.array([row.offset for row in self._rows], pa.int64())
        columns[STAGED_STREAM] = pa.array([row.stream_id for row in self._rows], pa.int64())
        columns[STAGED_TASK] = pa.repeat(pa.scalar(self.task, pa.int64()), len(self._rows))
        columns[STAGED_EXPIRED] = pa.array([row.has_expired for row in self._rows], pa.bool_())
        return pa.table(columns)

    def _fitting(self, rows: pa.Table, column: Column) -> pa.ChunkedArray:
        """Convert one column of rows; if that fails, find the first row at fault."""
        try:
            return converted(rows.column(column.name), column)
        except (pa.ArrowException, ValueError):
            for number, row in enumerate(self._rows):
                try:
                    converted(rows.column(column.name).slice(number, 1), column)
                except (pa.ArrowException, ValueError) as error:
                    reason = f"column {column.name}: {error}"
                    raise refused_row(self.target, self._described(row), reason) from error
            raise

    def _described(self, row: Row) -> str:
        names = {stream_id: f"{topic}/{partition}" for (topic, partition), stream_id in self.place.streams.items()}
        return f"the record at {names.get(row.stream_id, f'stream {row.stream_id}')} offset {row.offset}"

    def _staged_states(self) -> pa.Table:
        n = len(self._kept)
        values = [
            None if one.value is None else b"\x01" + one.value for one in self._kept
        ]  # the binary format of jsonb
        return pa.table(
            {
                STAGED_TASK: pa.repeat(pa.scalar(self.task, pa.int64()), n),
                "phase": pa.repeat(pa.scalar(self.phase, pa.int16()), n),
                "key": pa.array([one.key for one in self._kept], pa.string()),
                "stream_id": pa.array([one.stream_id for one in self._kept], pa.int64()),
                "value": pa.array(values, pa.binary()),
                "expires_at": pa.array([one.expires_at for one in self._kept], pa.timestamp("us", tz="UTC")),
                "kafka_offset": pa.array([one.offset for one in self._kept], pa.int64()),
            }
        )


def refused_row(target: Target, what: str, reason: str) -> FatalError:
    """Return the error for a row that the table cannot hold."""
    return FatalError(
        f"{target.name} refuses a row that the processor has made of {what}: {reason}",
        next_step="let transform.py raise an error for such a record, so that it becomes a reject, or correct the table, and run the task again; "
        "nothing was published",
        entry="table-refuses-rows",
    )


def _stored(row: DictRow, stream_id: int, stream: str) -> Stored:
    expires_at = row["expires_at"]
    return Stored(
        stream_id=stream_id,
        stream=stream,
        value=row["value"],
        expires_at=None if expires_at is None else expires_at.astimezone(UTC),
        offset=row["kafka_offset"],
    )
