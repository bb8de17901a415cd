"""A batch in the model of the ledger."""

from dataclasses import dataclass, field

from tideline.domain.states import BatchState
from tideline.ledger.attempts import Writer

PARTITIONS = 3


@dataclass
class Batch:
    """The state of one batch in the model."""

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
