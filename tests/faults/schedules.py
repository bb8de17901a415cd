"""A schedule: how everything is at its beginning, and the operations that follow."""

from dataclasses import dataclass
from datetime import datetime

from faults.operations import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredVisits:
    """What a stateful pipeline declares."""

    lateness_minutes: int = 0
    late: str = "reject"
    on_gap: str = "keep"
    undo_batches: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The initial state of a schedule."""

    ends: tuple[int, ...]
    """Records in each partition."""
    incarnation: int
    """Number of the topic's incarnation; each re-creation adds one."""
    delivery: str
    gaps: str
    start: str | datetime
    batch_records: int
    run_batches: int
    batch_bytes: int | None = None
    events_days: int | None = None
    """Age in days after which upkeep deletes events."""
    shared: bool = False
    """Whether two pipelines write to the table, each half of the records."""
    frame: bool = False
    """Whether the transform sees the whole batch as a frame. Then the number of filtered records is known only as a
    difference of counts."""
    outside: bool = False
    """Whether the rows are committed outside of the ledger's database."""
    visits: DeclaredVisits | None = None
    """How records are folded into visits; None for a pipeline without a state."""
    unique: bool = False
    """Whether ids are UNIQUE in the target table. Then a record that gives two rows with one id is refused at
    publish, not earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The initial state and all operations, except the healing at the end."""

    beginning: Beginning
    operations: tuple[Operation, ...]
