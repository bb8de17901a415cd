"""Receipts of outside sinks: what an attempt has committed where the ledger's transaction does not reach. Standard library only.

An outside sink keeps one number for each batch, its *version*, and changes it by compare-and-set alone. `2 * fence` is a
marker: no attempt below that fence can commit any more. `2 * fence + 1` is the data of the attempt with that fence. So a
version only rises, and it stays where it is from the first data on: a batch is committed once, whichever attempts try.
"""

from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

IDENTITY = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
"""How an identity stands in the names of files, applications and groups."""


@dataclass(frozen=True, slots=True)
class BatchIdentity:
    """What a batch is called outside of the ledger.

    Names there are built of the identity, never of the number: a ledger that was restored, or another one, gives the same numbers again.
    """

    identity: UUID
    """Drawn at random when the batch is planned."""
    batch_id: int | None = None
    """Its number in the ledger, for people. None if the ledger does not know the batch."""

    def __str__(self) -> str:
        return f"batch {self.identity if self.batch_id is None else self.batch_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What one attempt has committed outside: all rows of its batch, in one step."""

    fence: int
    """The fence of the attempt."""
    attempt: UUID
    """Its identity, as the sink has stored it beside the version. A ledger that was restored gives a fence again, never this."""
    said: str = field(default="", compare=False)
    """What the sink says to people of the commit, such as its offsets."""
    gone: bool = field(default=False, compare=False)
    """Whether the output was restored to a moment before the commit, so that its rows are gone. The receipt stays."""


class Found(Enum):
    """What the version of a batch means to an attempt that wants to commit."""

    FREE = "free"
    """It may commit, by compare-and-set from the version that was found."""
    OWN = "own"
    """It has committed, and did not hear of it."""
    SUPERSEDED = "superseded"
    """It can never commit: another attempt has, or a newer one has fenced it."""


def marker(fence: int) -> int:
    """Return the version that keeps every attempt below `fence` from committing.

    Raises:
        ValueError: No attempt has such a fence.
    """
    if fence < 1:
        raise ValueError(f"fences begin at 1, got {fence}")
    return 2 * fence


def data(fence: int) -> int:
    """Return the version of a batch whose data the attempt with this fence has committed."""
    return marker(fence) + 1


def committed_by(version: int | None) -> int | None:
    """Return the fence of the attempt that has committed; None if none has, and for a batch without a version."""
    return version // 2 if version is not None and version % 2 else None


def needs_marker(version: int | None, fence: int) -> bool:
    """Return whether a sink has to store `marker(fence)`: nothing is committed, and attempts below `fence` still could commit."""
    return committed_by(version) is None and (version or 0) < marker(fence)


def found(version: int | None, receipt: Receipt | None, *, own: Receipt) -> Found:
    """Return what the version of a batch, and the receipt that goes with it, mean to the attempt `own`.

    Call it before a commit, and after one whose outcome is unknown. Afterwards `FREE` means that nothing was committed.
    """
    if receipt is not None or committed_by(version) is not None:
        return Found.OWN if receipt == own else Found.SUPERSEDED
    return Found.FREE if (version or 0) <= marker(own.fence) else Found.SUPERSEDED
