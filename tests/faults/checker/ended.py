"""What must hold when all faults have ended and every run is through: nothing waits."""

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
    """A head may stand beyond the end: a log that was cut is gone on with once it has passed the head."""
    for stream in index.found.streams:
        if stream.state == "active" and stream.next_offset < (end := truth.end(stream)):
            yield Violation("unread", str(stream), f"the head is {stream.next_offset}, the log ends at {end}")


def unfollowed(index: Index, follows: Iterable[tuple[UUID, int]]) -> Iterator[Violation]:
    """Without it a partition that was never begun would lose everything, and no stream would tell."""
    known = {(stream.topic_id, stream.partition) for stream in index.found.streams if stream.state != "retired"}
    for topic_id, partition in follows:
        if (topic_id, partition) not in known:
            yield Violation("unfollowed", f"partition {partition} of topic {topic_id}", "no stream follows it")
