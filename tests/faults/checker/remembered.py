"""A truth that tests keep in memory: the records that they put into each partition, and the expected fate of each."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from uuid import UUID

from faults.checker.facts import Expected, Record, Stream

Place = tuple[UUID, int]
"""Topic id and partition."""


class Remembered:
    """The records that a reader may ever have seen.

    Args:
        records: By topic id and partition, ascending. Append records as they arrive, and keep those that retention deletes.
        expected: Returns the possible fates of a record.
        ends: Ends of logs, where these are not directly behind the last record: after transaction markers, or after a truncation.
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
