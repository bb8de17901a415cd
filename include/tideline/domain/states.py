"""The states of a batch and the transitions between them. The ledger's triggers enforce the same table (tested)."""

from enum import StrEnum


class BatchState(StrEnum):
    """The state of a batch."""

    PLANNED = "planned"
    """Its ranges are reserved; no attempt has claimed it."""
    WRITING = "writing"
    """An attempt has claimed it. Also the state in which a killed attempt leaves it."""
    FAILED = "failed"
    """Its newest attempt ended with an error; the next one writes the same ranges."""
    PUBLISHED = "published"
    """Its output, rejects, counts and coverage are visible. They became visible in one transaction."""
    ADVANCED = "advanced"
    """The heads of its streams have passed it. Final, unless a replay or a rewind supersedes it."""
    ABANDONED = "abandoned"
    """An operator or a plan gave it up before it was published; its offsets are free to be planned again."""
    SUPERSEDED = "superseded"
    """A replay owns all of its offsets now."""


class BatchKind(StrEnum):
    """The purpose of a batch."""

    LIVE = "live"
    """Continues at the heads."""
    BACKFILL = "backfill"
    """Loads offsets that no batch has loaded, away from the heads: holes, or offsets before a stream's start."""
    REPLAY = "replay"
    """Loads offsets again and replaces their rows."""
    REDRIVE = "redrive"
    """Decodes rejects again, from the bytes that were kept."""


TRANSITIONS: frozenset[tuple[BatchState, BatchState]] = frozenset(
    {
        (BatchState.PLANNED, BatchState.WRITING),
        (BatchState.WRITING, BatchState.WRITING),
        (BatchState.FAILED, BatchState.WRITING),
        (BatchState.WRITING, BatchState.FAILED),
        (BatchState.WRITING, BatchState.PUBLISHED),
        (BatchState.PUBLISHED, BatchState.ADVANCED),
        (BatchState.PLANNED, BatchState.ABANDONED),
        (BatchState.FAILED, BatchState.ABANDONED),
        (BatchState.PUBLISHED, BatchState.SUPERSEDED),
        (BatchState.ADVANCED, BatchState.SUPERSEDED),
    }
)
"""All allowed transitions. `writing -> writing` is a takeover by a newer attempt."""
