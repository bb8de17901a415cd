"""Looks at each transaction when it is to be committed: cheap laws that hold at every moment, and numbers for the tally."""

from faults.memory import MemoryDatabase
from faults.memory.rows import Batch, Event, Stream
from faults.simulation.tally import Tally


class Watcher:
    """Adds what it finds to `broken`."""

    def __init__(self, database: MemoryDatabase, tally: Tally, broken: list[str]) -> None:
        self._broken = broken
        self._database = database
        self._tally = tally
        self._counting: list[Batch | Event] = []
        self.stopped: list[Stream] = []
        """By the transaction that was looked at last."""
        self.taken: list[Batch] = []
        """The same, of batches that were being written: as they were before."""

    def look(self) -> None:
        """Before a COMMIT."""
        database = self._database
        touched = set()
        self._counting, self.stopped, self.taken = [], [], []
        for table, key, old in database._undo:
            if table is database.streams:
                touched.add(key)
                self._check_head(old, table[key])
                if isinstance(old, Stream) and old.state == "active" and table[key].state == "stopped":
                    self.stopped.append(table[key])
            elif table is database.batches or table is database.events:
                if key in table:
                    self._counting.append(table[key])
                if isinstance(old, Batch) and old.state == "writing":
                    self.taken.append(old)
            else:
                touched.update(stream_id for stream_id, pieces in database.coverage.items() if pieces is table)
        for stream_id in touched:
            self._check_tiles(database.streams[stream_id])

    def count(self) -> None:
        """After it has taken effect."""
        tally = self._tally
        tally.commits += 1
        for row in self._counting:
            if isinstance(row, Event):
                tally.refused += row.action == "refuse"
                tally.records += row.detail["to"] - row.detail["from"] if row.action == "move head" else 0
            elif row.state == "published":
                tally.published[row.kind] += 1

    def _check_head(self, old: object, new: Stream) -> None:
        if isinstance(old, Stream) and new.next_offset < old.next_offset:
            self._broken.append(f"the head of {new} went back from {old.next_offset}")

    def _check_tiles(self, stream: Stream) -> None:
        at = stream.start_offset
        for piece in self._database.covering(stream.stream_id, stream.start_offset, stream.next_offset):
            if piece.start > at or (piece.start < at and piece.start >= stream.start_offset):
                break
            at = piece.end
        if at < stream.next_offset:
            self._broken.append(
                f"coverage of {stream} does not tile [{stream.start_offset}, {stream.next_offset}): it ends at {at}"
            )
