"""A batch and a broker as the model of the ledger knows them."""

from dataclasses import dataclass, field
from uuid import UUID

from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.domain.states import BatchState
from tideline.errors import FatalError
from tideline.ledger.attempts import Writer

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

    def cluster_id(self) -> str:
        return "c"

    def missing(self, found, known=()) -> dict[str, FatalError]:
        return {}

    def topic_facts(self) -> list[TopicFacts]:
        bounds = enumerate(zip(self.starts, self.ends, strict=True))
        facts = (PartitionFacts(partition=n, log_start=start, end=end) for n, (start, end) in bounds)
        return [TopicFacts(cluster_id="c", topic="ads", topic_id=UUID(int=1), compacted=False, partitions=tuple(facts))]
