"""What a broker says of its topics at one moment, as values. `tideline.kafka.broker` reads them; planning and publishing compare them."""

from dataclasses import dataclass
from uuid import UUID

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """One partition at one moment, queried at the isolation level at which its records are read."""

    partition: int
    log_start: int
    """The oldest offset that the broker still holds."""
    end: int
    """The end of what may be read: the last stable offset, so never past an open transaction."""
    n_unstable: int = 0
    """The offsets from the last stable offset to the high watermark: those of open transactions, and all that is committed behind them."""
    leader_epoch: int | None = None
    """The epoch of the newest leader. It rises with each election, and no log loses records without one. None if the broker does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOffset:
    """What a broker finds for a time: the first record at or after it, or the end."""

    offset: int
    timestamp: int | None = None
    """The timestamp of that record, in milliseconds since 1970. None if there is no such record and `offset` is the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """One record, without its content."""

    offset: int
    timestamp: int
    """Milliseconds since 1970."""
    leader_epoch: int | None
    """The epoch of the leader that accepted it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """One topic incarnation at one moment."""

    cluster_id: str
    topic: str
    topic_id: UUID
    """Identifies the incarnation: it changes when a topic is deleted and created again under the same name."""
    compacted: bool
    """Whether `cleanup.policy` contains `compact`: offsets without a record are normal then."""
    retention_ms: int | None = None
    """The age at which a record may be deleted. None if age deletes nothing, or if the user may not read the setting. `retention.bytes`
    may delete records earlier."""
    partitions: tuple[PartitionFacts, ...]
    """In ascending order of partition number."""

    def partition(self, number: int) -> PartitionFacts:
        """Return the facts of one of its partitions."""
        return next(facts for facts in self.partitions if facts.partition == number)


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
