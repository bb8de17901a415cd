"""Ranges of a batch, for tests of code that reads them."""

from uuid import UUID

from tideline.domain.offsets import OffsetRange
from tideline.ledger.attempts import Range


def piece(topic: str, partition: int, start: int, end: int, *, gaps_allowed: bool = False) -> Range:
    """Return a range of a topic."""
    return Range(
        stream_id=partition,
        cluster_id="c",
        topic=topic,
        topic_id=UUID(int=1),
        partition=partition,
        offsets=OffsetRange(start, end),
        gaps_allowed=gaps_allowed,
    )
