"""The newest records of topics, with their content. A sample for the author of a pipeline; no load uses them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordContent:
    """One record with its content."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    """Milliseconds since 1970; None if the record has no timestamp."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestRecords:
    """The newest records of some topics."""

    records: list[RecordContent]
    """Oldest first, by timestamp."""
    gappy: frozenset[str]
    """The topics in which offsets without a record were seen: markers of transactions, or what compaction has removed."""
