"""A truth that tests keep in memory: what they have put into each partition, and what should become of it."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from uuid import UUID

from faults.checker.facts import Expected, Record, Stream

Place = tuple[UUID, int]
"""Topic id and partition."""


class Remembered:
    """What a reader may ever have seen.

    Args:
        records: By topic id and partition, ascending. Append as they arrive, and leave there what retention takes.
        expected: What may become of a record.
        ends: Where logs end, if not behind their last record: markers of a transaction follow it, or the log was cut.
    """

    def __init__(
        self,
        records: Mapping[Place, Sequence[Record]],
        *,
        expected: Callable[[Stream, Record], Expected],
        ends: Mapping[Place, int] | None = None,
    ) -> None:
        self._logs = records
        self._expected = expected
        self._ends = ends if ends is not None else {}

    def records(self, stream: Stream, start: int, end: int) -> Iterator[Record]:
        log = self._logs.get((stream.topic_id, stream.partition), ())
        offset = attrgetter("offset")
        return iter(log[bisect_left(log, start, key=offset) : bisect_left(log, end, key=offset)])

    def expected(self, stream: Stream, record: Record) -> Expected:
        return self._expected(stream, record)

    def end(self, stream: Stream) -> int:
        place = stream.topic_id, stream.partition
        log = self._logs.get(place)
        return self._ends.get(place, log[-1].offset + 1 if log else 0)
