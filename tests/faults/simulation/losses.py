"""Track truncated logs and restores of the database: what was lost, and which streams must stop because of it."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple
from uuid import UUID

from faults.memory import MemoryDatabase
from faults.operations import CutLog, KeepLedger, Overwrite, RestoreLedger
from faults.simulation.simulated_kafka import SimulatedKafka

Loss = CutLog | Overwrite | KeepLedger | RestoreLedger


class Cut(NamedTuple):
    """The end of a log after its truncation, and the head of its stream at that time."""

    end: int
    head: int


class Losses:
    """The losses of Kafka and of the database.

    Args:
        database: The database. No transaction is open when an operation is applied.
        kafka: The Kafka whose logs are truncated.
    """

    def __init__(self, database: MemoryDatabase, kafka: SimulatedKafka) -> None:
        self._database = database
        self._kafka = kafka
        self._kept: tuple[dict[str, Any], dict[int, Cut]] | None = None
        """A backup of the database, and of `unnoticed` at that time."""
        self.unnoticed: dict[int, Cut] = {}
        """By stream id: truncations after which records before the head have been replaced, until the stream stops."""
        self.restores = 0

    def apply(self, operation: Loss) -> None:
        """Apply one of these operations."""
        match operation:
            case KeepLedger():
                self._kept = self._database.keep(), dict(self.unnoticed)
                self._kafka.cuts.clear()
            case RestoreLedger():
                self._restore()
            case _:
                before = len(self._kafka.cuts)
                self._kafka.apply(operation)
                self._expect_stops(self._kafka.cuts[before:])

    def noticed(self, stream_ids: Iterable[int]) -> None:
        """Remove streams that have stopped from `unnoticed`."""
        for stream_id in stream_ids:
            self.unnoticed.pop(stream_id, None)

    def _expect_stops(self, cuts: Sequence[tuple[UUID, int, int]]) -> None:
        """Record the streams that must stop because their logs were cut before their heads.

        After an accepted loss nothing is compared behind the accepted end until the log has passed the head: what is
        written there is never read (decision 0024).
        """
        for (topic_id, partition, end), stream in product(cuts, self._database.streams.values()):
            is_it = (stream.topic_id, stream.partition, stream.state) == (topic_id, partition, "active")
            held = stream.next_offset if stream.accepted_end is None else min(stream.next_offset, stream.accepted_end)
            if is_it and end < held:
                self.unnoticed[stream.stream_id] = Cut(end, stream.next_offset)

    def _restore(self) -> None:
        if self._kept is not None:
            tables, unnoticed = self._kept
            self._database.restore(tables)
            self.unnoticed = dict(unnoticed)
            self._expect_stops(self._kafka.cuts)
            self.restores += 1
