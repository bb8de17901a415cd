"""Check each transaction before its COMMIT: cheap laws that must hold at every moment, and numbers for the tally."""

from collections.abc import Iterable
from typing import Any

from faults.memory import MemoryDatabase
from faults.memory.rows import Attempt, Batch, Event, Folded, Key, OutputRow, Stream
from faults.simulation.tally import Tally


class Watcher:
    """Checks transactions and adds violations to `broken`."""

    def __init__(self, database: MemoryDatabase, tally: Tally, broken: list[str]) -> None:
        self._broken = broken
        self._database = database
        self._tally = tally
        self._counting: list[Batch | Event] = []
        self._folded: list[Folded] = []
        self.stopped: list[Stream] = []
        """Streams that the last checked transaction has stopped."""
        self.noticed: list[int] = []
        """Ids of streams whose stop is recorded in the history by that transaction, also if an operator resolved them
        in the same transaction."""
        self.taken: list[Batch] = []
        """Batches in state `writing` that it changed, as they were before."""
        self.given_up: list[Event] = []
        """Its events of abandoned batches."""

    def look(self) -> None:
        """Check the open transaction before its COMMIT."""
        database = self._database
        self._folded = []
        self._counting, self.stopped, self.noticed, self.taken, self.given_up = [], [], [], [], []
        touched = {stream_id for table, key, old in database._undo for stream_id in self._look_at(table, key, old)}
        for stream_id in touched:
            self._check_tiles(database.streams[stream_id])

    def _look_at(self, table: dict[Any, Any], key: Any, old: object) -> Iterable[int]:
        """Check one row; return the ids of streams whose coverage has to be checked."""
        database = self._database
        if isinstance(old, OutputRow):
            self._check_owner(key, old)
        elif table is database.streams:
            self._check_stream(old, database.streams[key])
            return [key]
        elif table is database.attempts:
            self._check_holder(database.attempts[key])
        elif table is database.events:
            self._check_event(database.events.get(key))
        elif table is database.state_batches:
            self._folded.append(database.state_batches[key])
        elif table is database.batches:
            self._counting.append(database.batches[key])
            if isinstance(old, Batch) and old.state == "writing":
                self.taken.append(old)
        else:
            return [stream_id for stream_id, pieces in database.coverage.items() if pieces is table]
        return []

    def count(self) -> None:
        """Count what the transaction did, after its COMMIT took effect."""
        tally = self._tally
        tally.commits += 1
        for row in self._counting:
            if isinstance(row, Event):
                tally.refused += row.action == "refuse"
                tally.records += row.detail["to"] - row.detail["from"] if row.action == "move head" else 0
            elif row.state == "published":
                tally.published[row.kind] += 1
                tally.settled += row.written_by not in {None, self._database.writing(row).attempt_id}

        for folded in self._folded:
            tally.folded["rewound" if folded.undo == "applied" else folded.undo] += 1
            tally.folded["expired"] += folded.n_expired if folded.undo == "kept" else 0

    def _check_stream(self, old: object, new: Stream) -> None:
        if not isinstance(old, Stream):
            return
        if new.next_offset < old.next_offset:
            self._broken.append(f"the head of {new} went back from {old.next_offset}")
        if old.state == "active" and new.state == "stopped":
            self.stopped.append(new)

    def _check_event(self, new: Event | None) -> None:
        """Check an event; None if it was pruned."""
        if new is not None:
            self._counting.append(new)
            if new.action == "abandon":
                self.given_up.append(new)
            elif new.action == "stop" and new.stream_id is not None:
                self.noticed.append(new.stream_id)

    def _check_owner(self, place: Key, old: OutputRow) -> None:
        owner = self._database.batches[old.batch_id].pipeline
        if self._database.actor.partition(" ")[0] != owner and not self._database.is_rewinding(owner):
            self._broken.append(f"{self._database.actor} has taken a row of pipeline {owner} away: {place}")

    def _check_holder(self, new: Attempt) -> None:
        """Check that a batch was given to the run that claims it.

        The writer gets the id from Airflow. After a restore of the ledger, that id may belong to another batch.
        """
        batch = self._database.batches[new.batch_id]
        if new.batch_id not in self._database.runs.get((batch.pipeline, new.dag_id, new.run_id), ()):
            self._broken.append(
                f"{new.dag_id} {new.run_id} has claimed batch {new.batch_id} of {batch.pipeline}, which is not its own"
            )

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
