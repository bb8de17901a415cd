"""What a broker says about itself at one moment, as values. `tideline.kafka.broker` asks; planning and publishing compare."""

from dataclasses import dataclass
from uuid import UUID

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """One partition at one moment, asked at the isolation level at which it will be read."""

    partition: int
    log_start: int
    """The oldest offset that the broker still holds."""
    end: int
    """The next offset that may be read: the last stable offset, so never past an open transaction."""
    leader_epoch: int | None = None
    """Of the newest leader; rises with each election, and no log loses records without one. None where the broker does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOffset:
    """What a broker finds for a time: the first record as late as that, or the end."""

    offset: int
    timestamp: int | None = None
    """The record's own, in milliseconds since 1970; None at the end, where there is no such record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """One record, without what it holds."""

    offset: int
    timestamp: int
    """Milliseconds since 1970."""
    leader_epoch: int | None
    """Of the leader that took it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """One topic incarnation at one moment."""

    cluster_id: str
    topic: str
    topic_id: UUID
    """Changes when a topic is deleted and created again under its name; the name does not."""
    compacted: bool
    """Whether `cleanup.policy` holds `compact`: then offsets may be missing for good reason."""
    retention_ms: int | None = None
    """After this long a record may be deleted; None where time deletes nothing, or where the user may not know. What
    `retention.bytes` deletes is not in it."""
    partitions: tuple[PartitionFacts, ...]
    """In ascending order of partition number."""

    def partition(self, number: int) -> PartitionFacts:
        """The facts of one of its partitions."""
        return next(facts for facts in self.partitions if facts.partition == number)
