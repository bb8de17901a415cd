"""Logs that are cut, and a database that is restored: what was there before and is not any more, and who has to notice it."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple
from uuid import UUID

from faults.memory import MemoryDatabase
from faults.operations import CutLog, KeepLedger, Overwrite, RestoreLedger
from faults.simulation.simulated_kafka import SimulatedKafka

Loss = CutLog | Overwrite | KeepLedger | RestoreLedger


class Cut(NamedTuple):
    """Where a log ended when it was cut, and where the head of its stream was."""

    end: int
    head: int


class Losses:
    """What was lost of Kafka and of the database.

    Args:
        database: No transaction is open when something happens.
        kafka: Whose logs are cut.
    """

    def __init__(self, database: MemoryDatabase, kafka: SimulatedKafka) -> None:
        self._database = database
        self._kafka = kafka
        self._kept: tuple[dict[str, Any], dict[int, Cut]] | None = None
        """A copy of the database, and of what was unnoticed then."""
        self.unnoticed: dict[int, Cut] = {}
        """By stream id, that records before its head are others now; until it stops."""
        self.restores = 0

    def happen(self, operation: Loss) -> None:
        """One of them."""
        match operation:
            case KeepLedger():
                self._kept = self._database.keep(), dict(self.unnoticed)
                self._kafka.cuts.clear()
            case RestoreLedger():
                self._restore()
            case _:
                before = len(self._kafka.cuts)
                self._kafka.happen(operation)
                self._expect_stops(self._kafka.cuts[before:])

    def noticed(self, stream_ids: Iterable[int]) -> None:
        """Forget what was expected of streams that have stopped."""
        for stream_id in stream_ids:
            self.unnoticed.pop(stream_id, None)

    def _expect_stops(self, cuts: Sequence[tuple[UUID, int, int]]) -> None:
        """Streams whose logs have been cut before their heads must not go on as if nothing had been.

        Behind an end that was accepted nothing is compared until the log has passed the head: what comes there is never read (decision 0024).
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
