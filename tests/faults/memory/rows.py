"""Rows of the ledger's tables, as immutable values.

A change replaces the old row, so that a trigger sees both and an undo is cheap.

Times are whole microseconds of the database's clock.
"""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

Place = tuple[UUID, int, int]
"""Topic id, partition and offset of a record."""
Key = tuple[UUID, int, int, *tuple[Any, ...]]
"""The key of a row of output: the place of its record and, where declared, the value of one more column."""


class KnownPipeline(NamedTuple):
    created_at: int
    retired_at: int | None


class ClaimedOutput(NamedTuple):
    pipeline: str
    purpose: str
    kind: str
    place: str
    shared: bool


class Stream(NamedTuple):
    stream_id: int
    pipeline: str
    cluster_id: str
    topic: str
    topic_id: UUID
    partition: int
    start_offset: int
    next_offset: int
    state: str
    stopped_because: str | None
    accepted_end: int | None
    leader_epoch: int | None


class Batch(NamedTuple):
    batch_id: int
    identity: UUID
    pipeline: str
    kind: str
    state: str
    fence: int
    attempt: UUID | None
    dag_id: str
    run_id: str
    seq: int
    supersedes: int | None
    reason: str | None
    outside: bool
    written_by: int | None
    sealed_fence: int
    stateful: bool
    planned_at: int


class Intent(NamedTuple):
    attempt_id: int
    batch_id: int
    output: str
    n_rows: int
    written: Any
    redriven_streams: tuple[int, ...]
    redriven_offsets: tuple[int, ...]
    facts: Any
    filtered_by_difference: bool
    position: Any
    at: int


class Range(NamedTuple):
    batch_id: int
    stream_id: int
    start: int
    end: int
    gaps_allowed: bool
    reserves: bool
    planned_log_start: int
    planned_end: int
    n_read: int | None = None
    n_written: int | None = None
    n_rejected: int | None = None
    n_filtered: int | None = None
    n_gap: int | None = None
    first_read: int | None = None
    last_read: int | None = None
    published_log_start: int | None = None
    published_end: int | None = None
    n_bytes: int | None = None
    alone: bool = False


class Coverage(NamedTuple):
    coverage_id: int
    stream_id: int
    start: int
    end: int
    batch_id: int | None
    hole: str | None
    reason: str | None
    decided_by: str | None
    decided_in: int
    """The transaction."""


class Attempt(NamedTuple):
    attempt_id: int
    attempt: UUID
    batch_id: int
    fence: int
    dag_id: str
    run_id: str
    task_id: str
    try_number: int
    host: str
    pid: int
    started_at: int
    heartbeat_at: int
    n_read: int = 0
    progressed_at: int | None = None
    ended_at: int | None = None
    outcome: str | None = None
    problem: str | None = None


class Outgoing(NamedTuple):
    batch_id: int
    pipeline: str
    published_at: int
    n_tries: int = 0
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    announced_at: int | None = None


class Event(NamedTuple):
    event_id: int
    at: int
    actor: str
    action: str
    pipeline: str
    batch_id: int | None
    stream_id: int | None
    attempt: UUID | None
    from_state: str | None
    to_state: str | None
    detail: dict[str, Any]


class StagedCount(NamedTuple):
    stream_id: int
    first_read: int
    last_read: int
    n_read: int
    n_filtered: int
    n_bytes: int


class StagedReject(NamedTuple):
    stream_id: int
    kafka_offset: int
    step: str
    reason: str
    kafka_timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: bytes | None


class StagedRedrive(NamedTuple):
    stream_id: int
    start_offset: int
    offsets: tuple[int, ...]
    rejected_by: tuple[int, ...]


class Reject(NamedTuple):
    stream_id: int
    kafka_offset: int
    batch_id: int
    step: str
    reason: str
    kafka_timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: bytes | None
    attempt_id: int


class Folded(NamedTuple):
    batch_id: int
    pipeline: str
    seq: int
    processor: str
    n_keys: int
    n_expired: int
    undo: str


class Position(NamedTuple):
    stream_id: int
    pipeline: str
    next_offset: int
    max_time: datetime | None
    version: int
    batch_id: int | None


class KeyState(NamedTuple):
    pipeline: str
    key: str
    stream_id: int
    value: Any
    expires_at: datetime | None
    kafka_offset: int
    batch_id: int


class Undo(NamedTuple):
    batch_id: int
    key: str
    existed: bool
    stream_id: int | None
    value: Any
    expires_at: datetime | None
    kafka_offset: int | None
    of_batch: int | None


class Rewind(NamedTuple):
    rewind_id: int
    pipeline: str
    to_batch: int | None
    reason: str
    decided_by: str
    decided_in: int
    """The transaction."""


class StagedState(NamedTuple):
    task: int
    phase: int
    key: str
    stream_id: int
    value: Any
    expires_at: datetime | None
    kafka_offset: int


class StagedRow(NamedTuple):
    stream_id: int
    kafka_offset: int
    task: int
    values: tuple[Any, ...]
    expired: bool | None = None
    """Whether a timer has made it; None where no processor makes rows."""


class OutputRow(NamedTuple):
    kafka_offset: int
    batch_id: int
    values: tuple[Any, ...]


class TriedRecord(NamedTuple):
    place: Place
    rows: tuple[OutputRow, ...]
    state: str | None = None
    reason: str | None = None
