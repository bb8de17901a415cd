"""The facts that the checker compares, as plain values: what Kafka has ever shown, and what is in the ledger and the output.

Nothing here uses the code that is checked: an error there must not be repeated here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One visible record of a partition."""

    offset: int
    timestamp_ms: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """One partition of one topic incarnation."""

    stream_id: int
    cluster_id: str
    topic: str
    topic_id: UUID
    partition: int
    start_offset: int
    next_offset: int
    state: str = "active"

    def __str__(self) -> str:
        return f"stream {self.stream_id} ({self.topic}/{self.partition} of {self.topic_id})"


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch in its current state."""

    batch_id: int
    kind: str
    state: str
    fence: int
    attempt: UUID | None
    outside: bool = False
    written_by: UUID | None = None
    """The attempt whose outside commit it is."""
    stateful: bool = False
    planned_at: datetime = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Commit:
    """What an outside sink shows of one batch."""

    batch_id: int
    attempt: UUID
    n_rows: int


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets [start, end) of a batch in one stream. Its counts are None until the batch is published."""

    batch_id: int
    stream_id: int
    start: int
    end: int
    reserves: bool
    n_read: int | None = None
    n_written: int | None = None
    n_rejected: int | None = None
    n_filtered: int | None = None
    n_gap: int | None = None
    gaps_allowed: bool = False


@dataclass(frozen=True, slots=True)
class Coverage:
    """The owner of [start, end) of a stream: a batch, or a hole."""

    stream_id: int
    start: int
    end: int
    batch_id: int | None = None
    hole: str | None = None
    reason: str | None = None
    decided_by: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at writing a batch."""

    attempt: UUID
    batch_id: int
    fence: int
    outcome: str | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A batch that is in the outbox."""

    batch_id: int
    announced: bool


@dataclass(frozen=True, slots=True)
class Event:
    """An entry of the history."""

    event_id: int
    action: str
    batch_id: int | None = None
    stream_id: int | None = None
    attempt: UUID | None = None
    from_state: str | None = None
    to_state: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


class Folded(NamedTuple):
    """A batch that is folded into the state."""

    batch_id: int
    seq: int
    processor: str
    n_keys: int
    n_expired: int
    undo: str


class Position(NamedTuple):
    """How far a stream is folded, now or before a batch."""

    stream_id: int
    next_offset: int
    max_time: datetime | None
    batch_id: int | None
    """The batch that was folded last."""


class KeyState(NamedTuple):
    """The state of a key, now or before a batch."""

    key: str
    stream_id: int
    value: Mapping[str, Any]
    expires_at: datetime | None
    offset: int
    batch_id: int
    """The batch that has changed it last."""


@dataclass(frozen=True, slots=True)
class Undo:
    """What the ledger keeps of a batch that can be rewound."""

    positions: Mapping[int, Position]
    """By stream, as they were before it."""
    states: Mapping[str, KeyState | None]
    """By key, as they were before it; None for a key without a state."""


class Row(NamedTuple):
    """One row of the output; `values` are those of the columns that the caller selected."""

    offset: int
    batch_id: int
    values: tuple[Any, ...] = ()


class Foreign(NamedTuple):
    """A row in a table shared by pipelines that names a batch of another pipeline, which does not own that offset."""

    topic_id: UUID
    partition: int
    offset: int
    batch_id: int
    pipeline: str


class Reject(NamedTuple):
    """A rejected record; `headers` are the bytes that the ledger keeps."""

    offset: int
    batch_id: int
    step: str = "decode"
    reason: str = "a reason"
    timestamp_ms: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A pipeline's ledger and output, from one snapshot. `rows` and `rejects` are in ascending order of offsets and can be iterated again.

    Rows that name a batch of another pipeline are left out: that pipeline's check accounts for them.
    """

    streams: Sequence[Stream]
    batches: Sequence[Batch]
    ranges: Sequence[Range]
    coverage: Sequence[Coverage]
    attempts: Sequence[Attempt]
    events: Sequence[Event]
    rows: Callable[[Stream], Iterator[Row]]
    rejects: Callable[[Stream], Iterator[Reject]]
    outbox: Sequence[Outgoing]
    strangers: Sequence[tuple[UUID, int]] = ()
    """Topic id and partition of output rows that belong to no stream."""
    foreign: Sequence[Foreign] = ()
    commits: Sequence[Commit] | None = None
    """Commits of an outside sink; None where the output is a table."""
    asset_events: Sequence[tuple[int, UUID]] | None = None
    """Batch and attempt of each asset event; None where the events are not known."""
    folded: Sequence[Folded] = ()
    """In the order in which they were folded, those that were rewound included."""
    positions: Mapping[int, Position] = field(default_factory=dict)
    """By stream."""
    states: Mapping[str, KeyState] = field(default_factory=dict)
    """By key."""
    undo: Mapping[int, Undo] = field(default_factory=dict)
    """By batch."""


WRITTEN, REJECTED, FILTERED = "written", "rejected", "filtered"


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected fate of a record. There can be several fates after a re-drive with another transform."""

    fates: frozenset[str]
    rows: tuple[tuple[Any, ...], ...] = ()
    """Values of its output rows, in any order, if it is written."""


class Truth(Protocol):
    """What Kafka held, and what the transform makes of each record."""

    def records(self, stream: Stream, start: int, end: int) -> Iterator[Record]:
        """Yield what a read_committed reader may ever have seen of [start, end) of that incarnation, ascending.

        This includes records that retention has deleted since.
        """

    def expected(self, stream: Stream, record: Record) -> Expected:
        """Return the possible fates of a record."""

    def end(self, stream: Stream) -> int:
        """Return the end of the log of that incarnation."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated law, and where."""

    law: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.law}: {self.where}: {self.text}"
