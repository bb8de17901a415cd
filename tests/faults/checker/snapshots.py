"""Reads the ledger and the output from one snapshot of Postgres, with SQL that does not depend on the code that is checked.

Rows and rejects stream through server-side cursors, a few thousand at a time.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

import psycopg2
from psycopg2.extensions import connection, new_type, register_type
from psycopg2.extras import register_uuid
from psycopg2.sql import SQL, Composable, Identifier

from faults.checker.facts import (
    Attempt,
    Batch,
    Commit,
    Coverage,
    Event,
    Folded,
    Foreign,
    Found,
    KeyState,
    Outgoing,
    Position,
    Range,
    Reject,
    Row,
    Stream,
    Undo,
)

Thing = TypeVar("Thing")

STREAMS = """
SELECT stream_id, cluster_id, topic, topic_id, partition, start_offset, next_offset, state::text
FROM tideline.stream WHERE pipeline = %(pipeline)s ORDER BY stream_id"""
BATCHES = """
SELECT b.batch_id, kind::text, state::text, b.fence, b.attempt, outside, a.attempt, stateful, planned_at
FROM tideline.batch b LEFT JOIN tideline.attempt a ON a.attempt_id = written_by WHERE pipeline = %(pipeline)s ORDER BY b.batch_id"""
RANGES = """
SELECT batch_id, stream_id, lower(offsets), upper(offsets), reserves, n_read, n_written, n_rejected, n_filtered, n_gap, gaps_allowed
FROM tideline.batch_range JOIN tideline.batch USING (batch_id) WHERE pipeline = %(pipeline)s ORDER BY batch_id, stream_id"""
COVERAGE = """
SELECT stream_id, lower(offsets), upper(offsets), batch_id, hole::text, reason, decided_by
FROM tideline.coverage JOIN tideline.stream USING (stream_id) WHERE pipeline = %(pipeline)s"""
ATTEMPTS = """
SELECT a.attempt, a.batch_id, a.fence, a.outcome::text, a.ended_at IS NOT NULL
FROM tideline.attempt a JOIN tideline.batch USING (batch_id) WHERE pipeline = %(pipeline)s"""
EVENTS = """
SELECT event_id, action, batch_id, stream_id, attempt, from_state, to_state, detail
FROM tideline.event WHERE pipeline = %(pipeline)s ORDER BY event_id"""
OUTBOX = "SELECT batch_id, announced_at IS NOT NULL FROM tideline.outbox WHERE pipeline = %(pipeline)s"
COMMITS = "ads.outside_commit"
"""A table in which a test stores what an outside sink shows: batch, attempt and number of rows of each commit."""
ASSET_EVENTS = "ads.asset_event"
"""A table in which a test stores the events that Airflow would store: batch and attempt of each."""
FOLDED = """
SELECT batch_id, seq, processor, n_keys, n_expired, undo FROM tideline.state_batch WHERE pipeline = %(pipeline)s ORDER BY seq"""
POSITIONS = (
    "SELECT stream_id, next_offset, max_time, batch_id FROM tideline.state_position WHERE pipeline = %(pipeline)s"
)
STATES = (
    "SELECT key, stream_id, value, expires_at, kafka_offset, batch_id FROM tideline.state WHERE pipeline = %(pipeline)s"
)
POSITION_UNDO = """
SELECT batch_id, stream_id, next_offset, max_time, of_batch FROM tideline.state_position_undo JOIN tideline.state_batch USING (batch_id)
WHERE pipeline = %(pipeline)s"""
STATE_UNDO = """
SELECT batch_id, existed, key, stream_id, value, expires_at, kafka_offset, of_batch
FROM tideline.state_undo JOIN tideline.state_batch USING (batch_id) WHERE pipeline = %(pipeline)s"""
REJECTS = """
SELECT kafka_offset, batch_id, step, reason, kafka_timestamp_ms, key, value, headers
FROM tideline.reject WHERE stream_id = %(stream_id)s ORDER BY kafka_offset"""
ROWS = """
SELECT kafka_offset, tideline_batch{columns} FROM {table}
WHERE kafka_topic_id = %(topic_id)s AND kafka_partition = %(partition)s
  AND tideline_batch NOT IN (SELECT batch_id FROM tideline.batch WHERE pipeline <> %(pipeline)s) ORDER BY kafka_offset"""
FOREIGN = """
SELECT t.kafka_topic_id, t.kafka_partition, t.kafka_offset, b.batch_id, b.pipeline
FROM {table} t JOIN tideline.batch b ON b.batch_id = t.tideline_batch
WHERE b.pipeline <> %(pipeline)s AND NOT EXISTS (
    SELECT FROM tideline.stream s JOIN tideline.coverage c USING (stream_id)
    WHERE s.pipeline = b.pipeline AND s.topic_id = t.kafka_topic_id AND s.partition = t.kafka_partition
      AND c.batch_id = b.batch_id AND c.offsets @> t.kafka_offset)"""
# Jump from one incarnation's partition to the next by the table's key: reading every row would take minutes.
STRANGERS = """
WITH RECURSIVE place AS (
    (SELECT kafka_topic_id, kafka_partition FROM {table} ORDER BY kafka_topic_id, kafka_partition LIMIT 1)
    UNION ALL
    SELECT after.* FROM place, LATERAL (
        SELECT t.kafka_topic_id, t.kafka_partition FROM {table} t
        WHERE (t.kafka_topic_id, t.kafka_partition) > (place.kafka_topic_id, place.kafka_partition)
        ORDER BY t.kafka_topic_id, t.kafka_partition LIMIT 1) after
)
SELECT kafka_topic_id, kafka_partition FROM place
WHERE (kafka_topic_id, kafka_partition) NOT IN (SELECT topic_id, partition FROM tideline.stream WHERE pipeline = %(pipeline)s)
  AND EXISTS (
    SELECT FROM {table} t WHERE t.kafka_topic_id = place.kafka_topic_id AND t.kafka_partition = place.kafka_partition
      AND t.tideline_batch NOT IN (SELECT batch_id FROM tideline.batch WHERE pipeline <> %(pipeline)s))"""

ROWS_AT_ONCE, REJECTS_AT_ONCE = 5_000, 200
"""Number fetched at a time. Fewer rejects than rows: a reject may hold a megabyte."""
BYTES = new_type((17,), "BYTES", lambda value, cursor: None if value is None else bytes(psycopg2.BINARY(value, cursor)))


class Reading:
    """What one transaction sees. With `snapshot` all statements see the same state."""

    def __init__(self, opened: connection, pipeline: str, table: str | None) -> None:
        register_uuid(conn_or_curs=opened)  # type: ignore[no-untyped-call]  # its stub has no types
        register_type(BYTES, opened)
        self.connection = opened
        self.pipeline = pipeline
        self._names = count()
        self.table = None if table is None else self._existing(table)

    def _existing(self, table: str) -> Composable | None:
        """Return the table's identifier, or None before the first batch has created it."""
        name = Identifier(*table.split("."))
        [(found,)] = self.ask("SELECT to_regclass(%(name)s)", name=name.as_string(self.connection))
        return name if found else None

    def ask(self, statement: str | Composable, **bound: Any) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, {"pipeline": self.pipeline, **bound})
            return cursor.fetchall()

    def found(self, columns: Sequence[str] = ()) -> Found:
        """Return everything except rows and rejects, which are read on demand."""
        chosen = SQL("").join(SQL(", {}").format(Identifier(column)) for column in columns)
        return Found(
            streams=[Stream(*row) for row in self.ask(STREAMS)],
            batches=[Batch(*row) for row in self.ask(BATCHES)],
            ranges=[Range(*row) for row in self.ask(RANGES)],
            coverage=[Coverage(*row) for row in self.ask(COVERAGE)],
            attempts=[Attempt(*row) for row in self.ask(ATTEMPTS)],
            events=[Event(*row) for row in self.ask(EVENTS)],
            outbox=[Outgoing(*row) for row in self.ask(OUTBOX)],
            asset_events=self._asset_events(),
            commits=self._commits(),
            folded=[Folded(*row) for row in self.ask(FOLDED)],
            positions={row[0]: Position(*row) for row in self.ask(POSITIONS)},
            states={row[0]: KeyState(*row) for row in self.ask(STATES)},
            undo=self._undo(),
            rows=lambda stream: self._rows(stream, chosen),
            rejects=self._rejects,
            strangers=self.ask(SQL(STRANGERS).format(table=self.table)) if self.table else [],
            foreign=[Foreign(*row) for row in self.ask(SQL(FOREIGN).format(table=self.table))] if self.table else [],
        )

    def _asset_events(self) -> Sequence[tuple[int, UUID]] | None:
        if self._existing(ASSET_EVENTS) is None:
            return None
        rows = self.ask(SQL("SELECT batch_id, attempt FROM {}").format(Identifier(*ASSET_EVENTS.split("."))))
        return [(batch_id, attempt) for batch_id, attempt in rows]

    def _undo(self) -> dict[int, Undo]:
        positions: dict[int, dict[int, Position]] = defaultdict(dict)
        states: dict[int, dict[str, KeyState | None]] = defaultdict(dict)
        for batch_id, *before in self.ask(POSITION_UNDO):
            positions[batch_id][before[0]] = Position(*before)
        for batch_id, existed, *state in self.ask(STATE_UNDO):
            states[batch_id][state[0]] = KeyState(*state) if existed else None
        return {batch_id: Undo(positions[batch_id], states[batch_id]) for batch_id in positions.keys() | states.keys()}

    def _commits(self) -> Sequence[Commit] | None:
        if self._existing(COMMITS) is None:
            return None
        rows = self.ask(SQL("SELECT batch_id, attempt, n_rows FROM {}").format(Identifier(*COMMITS.split("."))))
        return [Commit(*row) for row in rows]

    def _rows(self, stream: Stream, columns: Composable) -> Iterator[Row]:
        if self.table is None:
            return iter(())
        bound = {"pipeline": self.pipeline, "topic_id": stream.topic_id, "partition": stream.partition}
        statement = SQL(ROWS).format(columns=columns, table=self.table)
        return self._stream(statement, bound, lambda row: Row(row[0], row[1], row[2:]), ROWS_AT_ONCE)

    def _rejects(self, stream: Stream) -> Iterator[Reject]:
        return self._stream(SQL(REJECTS), {"stream_id": stream.stream_id}, Reject._make, REJECTS_AT_ONCE)

    def _stream(
        self, statement: Composable, bound: dict[str, Any], make: Callable[[tuple[Any, ...]], Thing], at_once: int
    ) -> Iterator[Thing]:
        with self.connection.cursor(name=f"checker_{next(self._names)}") as cursor:
            cursor.itersize = at_once
            cursor.execute(statement, bound)
            yield from map(make, cursor)


def snapshot(url: str, name: str) -> connection:
    """Open a read-only session whose transactions each see one snapshot."""
    opened = psycopg2.connect(url, application_name=name, connect_timeout=10)
    opened.set_session(isolation_level="REPEATABLE READ", readonly=True)
    return opened


@contextmanager
def read(url: str, pipeline: str, table: str, columns: Sequence[str]) -> Iterator[Found]:
    """Read a pipeline's ledger and its output table from one snapshot: `with read(...) as found`.

    Rows and rejects stream from the server within that snapshot, so use `found` inside the block.

    Args:
        url: The database.
        pipeline: The pipeline whose ledger is read.
        table: Its output table, `schema.table`; it need not exist yet.
        columns: The columns of the rows' `values`.
    """
    opened = snapshot(url, "checker")
    try:
        yield Reading(opened, pipeline, table).found(columns)
    finally:
        opened.close()
