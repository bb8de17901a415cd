"""Laws that hold only when all faults have ended and every run has finished: no work is left."""

from collections.abc import Iterable, Iterator
from uuid import UUID

from faults.checker.facts import Truth, Violation
from faults.checker.index import OPEN, Index


def jammed(index: Index) -> Iterator[Violation]:
    for batch in index.found.batches:
        if batch.state in {*OPEN, "published"}:
            yield Violation("jammed", f"batch {batch.batch_id}", f"is a {batch.kind} that is still {batch.state}")
    for stream in index.found.streams:
        if stream.state == "stopped":
            yield Violation("jammed", str(stream), "is stopped")


def unread(index: Index, truth: Truth) -> Iterator[Violation]:
    """Yield heads that have not reached the end of the log.

    A head may be beyond the end: reading of a truncated log resumes only when the log has grown past the head.
    """
    for stream in index.found.streams:
        if stream.state == "active" and stream.next_offset < (end := truth.end(stream)):
            yield Violation("unread", str(stream), f"the head is {stream.next_offset}, the log ends at {end}")


def unfollowed(index: Index, follows: Iterable[tuple[UUID, int]]) -> Iterator[Violation]:
    """Yield partitions without a stream: without this check all records of such a partition could be lost unnoticed."""
    known = {(stream.topic_id, stream.partition) for stream in index.found.streams if stream.state != "retired"}
    for topic_id, partition in follows:
        if (topic_id, partition) not in known:
            yield Violation("unfollowed", f"partition {partition} of topic {topic_id}", "no stream follows it")
