"""A batch and a broker as the model of the ledger knows them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.domain.states import BatchState
from tideline.errors import FatalError
from tideline.ledger.attempts import Writer
from windows import T0

PARTITIONS = 3


@dataclass
class Batch:
    """What the model knows of one batch."""

    ranges: dict[int, tuple[int, int]]
    """(start, end) by partition."""
    state: BatchState = BatchState.PLANNED
    fence: int = 0
    writer: Writer | None = None
    history: list[tuple[str | None, str | None]] = field(default_factory=lambda: [(None, "planned")])
    """From and to of each change; (None, None) for a refusal."""

    def become(self, state: BatchState) -> None:
        self.history.append((self.state, state))
        self.state = state

    @property
    def is_open(self) -> bool:
        return self.state in {BatchState.PLANNED, BatchState.WRITING, BatchState.FAILED}


class Log:
    """A broker in memory: what a plan may ask of one."""

    def __init__(self, *ends: int) -> None:
        self.ends = list(ends) or [0] * PARTITIONS
        self.starts = [0] * len(self.ends)
        self.topic_id = UUID(int=1)
        self.cluster = "c"

    def cluster_id(self) -> str:
        return self.cluster

    def create_again(self, *ends: int) -> None:
        """Another topic under the same name."""
        self.topic_id = UUID(int=self.topic_id.int + 1)
        self.ends, self.starts = list(ends), [0] * len(ends)

    def missing(self, found, known=()) -> dict[str, FatalError]:
        return {}

    def offsets_at(self, topic: str, partitions: Iterable[int], when: datetime) -> dict[int, int]:
        """Offset n was written in minute n."""
        minute = (when - T0) // timedelta(minutes=1)
        return {n: min(max(minute, self.starts[n]), self.ends[n]) for n in partitions}

    def topic_facts(self) -> list[TopicFacts]:
        bounds = enumerate(zip(self.starts, self.ends, strict=True))
        facts = (PartitionFacts(partition=n, log_start=start, end=end) for n, (start, end) in bounds)
        return [
            TopicFacts(
                cluster_id=self.cluster, topic="ads", topic_id=self.topic_id, compacted=False, partitions=tuple(facts)
            )
        ]
