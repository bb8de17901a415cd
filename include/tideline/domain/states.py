"""The states of a batch and the ways between them. The ledger's triggers enforce the same table (tested)."""

from enum import StrEnum


class BatchState(StrEnum):
    """Where a batch stands."""

    PLANNED = "planned"
    """Its ranges are reserved; nobody has tried to write it."""
    WRITING = "writing"
    """An attempt has claimed it. Also the state in which a killed attempt leaves it."""
    FAILED = "failed"
    """Its newest attempt ended with an error; the next one writes the same ranges."""
    PUBLISHED = "published"
    """Its output, rejects, counts and coverage are visible: they became so in one transaction."""
    ADVANCED = "advanced"
    """The heads of its streams have passed it. Final, unless a replay supersedes it."""
    ABANDONED = "abandoned"
    """A person gave up on it before it was published; its offsets are free to be planned again."""
    SUPERSEDED = "superseded"
    """A replay owns all of its offsets now."""


class BatchKind(StrEnum):
    """What a batch is for."""

    LIVE = "live"
    """Continues at the heads."""
    BACKFILL = "backfill"
    """Loads offsets that nobody has loaded, away from the heads: holes, or what lies before a stream's start."""
    REPLAY = "replay"
    """Loads offsets again and replaces what is there."""
    REDRIVE = "redrive"
    """Decodes rejects once more, from the bytes that were kept."""


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
"""Every change of state that may happen. `writing -> writing` is a takeover by a newer attempt."""
