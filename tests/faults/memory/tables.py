"""Compares the rows of all tables of the real database with those in memory."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from psycopg2.sql import SQL, Identifier

from faults.memory.database import MemoryDatabase, Table
from given_ledger.ledgers import query
from tideline.ledger.connection import Ledger

_QUERIES = {
    "pipeline": "SELECT pipeline, retired_at IS NOT NULL FROM tideline.pipeline",
    "claimed_output": "SELECT pipeline, purpose, kind, place, shared FROM tideline.claimed_output",
    "stream": "SELECT stream_id, pipeline, cluster_id, topic, topic_id, partition, start_offset, next_offset, state::text, stopped_because,"
    " accepted_end, leader_epoch FROM tideline.stream",
    "batch": "SELECT batch_id, identity, pipeline, kind::text, state::text, fence, attempt, dag_id, run_id, seq, supersedes, reason, outside,"
    " written_by, sealed_fence, stateful FROM tideline.batch",
    "batch_range": "SELECT batch_id, stream_id, lower(offsets), upper(offsets), gaps_allowed, reserves, planned_log_start, planned_end, n_read,"
    " n_written, n_rejected, n_filtered, n_gap, first_read, last_read, published_log_start, published_end, n_bytes, alone FROM tideline.batch_range",
    "intent": "SELECT attempt_id, batch_id, output, n_rows, written::text, redriven_streams, redriven_offsets, facts::text, filtered_by_difference,"
    " position::text FROM tideline.intent",
    "coverage": "SELECT stream_id, lower(offsets), upper(offsets), batch_id, hole::text, reason, decided_by FROM tideline.coverage",
    "attempt": "SELECT attempt_id, attempt, batch_id, fence, dag_id, run_id, task_id, try_number, host, pid, ended_at IS NOT NULL,"
    " outcome::text, problem, n_read, progressed_at IS NOT NULL FROM tideline.attempt",
    "outbox": "SELECT batch_id, pipeline, n_tries, dag_id, run_id, task_id, announced_at IS NOT NULL FROM tideline.outbox",
    "event": "SELECT event_id, actor, action, pipeline, batch_id, stream_id, attempt, from_state, to_state, detail FROM tideline.event",
    "run_batch": "SELECT pipeline, dag_id, run_id, batch_id, position FROM tideline.run_batch",
    "redrive": "SELECT batch_id, stream_id, kafka_offset FROM tideline.redrive",
    "reject": "SELECT stream_id, kafka_offset, batch_id, step, reason, kafka_timestamp_ms, key, value, headers, attempt_id"
    " FROM tideline.reject",
    "staged_count": "SELECT attempt_id, stream_id, first_read, last_read, n_read, n_filtered, n_bytes FROM tideline.staged_count",
    "staged_reject": "SELECT attempt_id, stream_id, kafka_offset, step, reason, kafka_timestamp_ms, key, value, headers"
    " FROM tideline.staged_reject",
    "staged_redrive": "SELECT attempt_id, stream_id, start_offset, offsets, rejected_by FROM tideline.staged_redrive",
    "state_batch": "SELECT batch_id, pipeline, seq, processor, n_keys, n_expired, undo FROM tideline.state_batch",
    "state_position": "SELECT stream_id, pipeline, next_offset, max_time, version, batch_id FROM tideline.state_position",
    "state": "SELECT pipeline, key, stream_id, value::text, expires_at, kafka_offset, batch_id FROM tideline.state",
    "state_undo": "SELECT batch_id, key, existed, stream_id, value::text, expires_at, kafka_offset, of_batch FROM tideline.state_undo",
    "state_position_undo": "SELECT batch_id, stream_id, next_offset, max_time, of_batch FROM tideline.state_position_undo",
    "rewind": "SELECT rewind_id, pipeline, to_batch, reason, decided_by FROM tideline.rewind",
    "staging": "SELECT tablename FROM pg_tables WHERE schemaname = 'tideline_staging'",
}


_EMPTY = """
SET LOCAL session_replication_role = replica;  -- without the triggers, which would refuse it
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname IN ('tideline', 'ads') AND tablename <> 'migration' LOOP
        EXECUTE 'DELETE FROM ' || name;
    END LOOP;
    FOR name IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'tideline_staging' LOOP
        EXECUTE 'DROP TABLE ' || name;
    END LOOP;
    PERFORM setval(format('%I.%I', schemaname, sequencename), 1, false) FROM pg_sequences WHERE schemaname = 'tideline';
END $$;
"""


def empty(real: Ledger) -> None:
    """Delete all rows of the ledger and the output and reset the sequences. This is faster than creating another database."""
    with real.connection as connection, connection.cursor() as cursor:
        cursor.execute(_EMPTY)


def differences(real: Ledger, database: MemoryDatabase) -> list[str]:
    """Return one line for each row that only one side has."""
    memory = _in_memory(database)
    lines = []
    for table, text in _QUERIES.items():
        mine, theirs = [_plain(row) for row in query(real, text)], [tuple(row) for row in memory[table]]
        if table == "event":
            mine, theirs = _histories(mine), _histories(theirs)
        lines += _compared(table, mine, theirs)
    for (schema, name), output in database.outputs.items():
        rows = [(*key[:3], *row[1:]) for key, row in output.rows.items()]
        lines += _compared(name, _output(real, schema, name, output), rows)
    return lines


def _compared(table: str, mine: Iterable[tuple[Any, ...]], theirs: Iterable[tuple[Any, ...]]) -> list[str]:
    only_mine, only_theirs = Counter(mine), Counter(theirs)
    only_mine, only_theirs = only_mine - only_theirs, only_theirs - only_mine
    return [f"{table}: only in Postgres: {row}" for row in only_mine] + [
        f"{table}: only in memory: {row}" for row in only_theirs
    ]


def _output(real: Ledger, schema: str, name: str, table: Table) -> list[tuple[Any, ...]]:
    text = SQL("SELECT kafka_topic_id, kafka_partition, kafka_offset, tideline_batch, {} FROM {}").format(
        SQL(", ").join(map(Identifier, table.columns)), Identifier(schema, name)
    )
    return [(*row[:4], tuple(row[4:])) for row in query(real, text)]


def _histories(events: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Group the events of each batch and stream, in order. Events of one statement about several of them have no order."""
    by_thing = sorted(events, key=lambda event: (event[4] or 0, event[5] or 0, event[0]))
    return [
        (thing, *(_without_id(event) for event in rows))
        for thing, rows in groupby(by_thing, key=lambda event: event[4:6])
    ]


def as_text(value: Any) -> str:
    """Return a value as the text of a jsonb column: the keys of an object by length, then by name."""
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda item: (len(item[0]), item[0]))
        return "{" + ", ".join(f"{json.dumps(key)}: {as_text(one)}" for key, one in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_text, value)) + "]"
    return json.dumps(value)


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    as_kept: dict[type, Callable[[Any], Any]] = {memoryview: bytes, list: tuple}
    return tuple(as_kept.get(type(value), lambda same: same)(value) for value in row)


def _without_id(event: tuple[Any, ...]) -> tuple[Any, ...]:
    _, *rest, detail = event
    return (*rest, json.dumps(detail, sort_keys=True))


def _in_memory(db: MemoryDatabase) -> dict[str, list[Any]]:
    return {
        "pipeline": [(name, one.retired_at is not None) for name, one in db.pipelines.items()],
        "claimed_output": list(db.claimed.values()),
        "stream": list(db.streams.values()),
        "batch": [batch[:-1] for batch in db.batches.values()],  # each side has its own clock
        "batch_range": [piece for pieces in db.ranges.values() for piece in pieces.values()],
        "intent": [
            (
                *i[:4],
                as_text(i.written),
                *i[5:7],
                as_text(i.facts),
                i.filtered_by_difference,
                i.position and as_text(i.position),
            )
            for i in db.intents.values()
        ],
        "coverage": [piece[1:8] for pieces in db.coverage.values() for piece in pieces.values()],
        "attempt": [
            (*a[:10], a.ended_at is not None, a.outcome, a.problem, a.n_read, a.progressed_at is not None)
            for a in db.attempts.values()
        ],
        "outbox": [(*o[:2], *o[3:7], o.announced_at is not None) for o in db.outbox.values()],
        "event": [(e.event_id, *e[2:]) for e in db.events.values()],
        "run_batch": [(*run, *given) for run, batches in db.runs.items() for given in batches.items()],
        "redrive": [(batch_id, *place) for batch_id, places in db.redrives.items() for place in places],
        "reject": list(db.rejects.values()),
        "staged_count": [(n, *row) for n, rows in db.staged_counts.items() for row in rows.values()],
        "staged_reject": [(n, *row) for n, rows in db.staged_rejects.items() for row in rows.values()],
        "staged_redrive": [(n, *row) for n, rows in db.staged_redrives.items() for row in rows.values()],
        "state_batch": list(db.state_batches.values()),
        "state_position": list(db.positions.values()),
        "state": [(*row[:3], as_text(row.value), *row[4:]) for row in db.states.values()],
        "state_undo": [
            (*row[:4], None if row.value is None else as_text(row.value), *row[5:]) for row in db.state_undo.values()
        ],
        "state_position_undo": list(db.position_undo.values()),
        "rewind": [row[:-1] for row in db.rewinds.values()],
        "staging": [(name,) for name in (*db.staging, *db.staged_states)],
    }
