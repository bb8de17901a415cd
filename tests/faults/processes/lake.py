"""Provide the Delta table of a scene: its log as the checker reads it, and the commits that are in flight to it."""

from collections import Counter
from pathlib import Path
from random import Random

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction

from faults import records
from faults.checker.lake_log import LakeLog
from faults.operations import Hold, Land, Lose
from faults.processes.gate import Entry, Outcome

_DELAYS = (None, None, None, 1, 1, 2, 2, 3, 5)
"""Steps after which an entry lands. The next ones of the sender, or of the attempt after it, are a look at the table, and
a commit. None if the schedule says when."""


class Lake:
    """A Delta table in a folder of this machine.

    An entry of its log that was sent lands, or is lost, at any later time: before or after another attempt fences the
    batch, after the batch was abandoned, or never. Its sender may be dead by then. Half of them land a few steps later,
    the others when the schedule says so, or long after all its operations.

    Args:
        folder: The table's folder.
        pipeline: The pipeline that writes it.
    """

    def __init__(self, folder: Path, pipeline: str) -> None:
        self._folder = folder
        self.log = LakeLog(folder, pipeline, records.OUTPUT)
        self._sent: list[str] = []
        """The attempt of each entry with rows."""
        self._happened: Counter[str] = Counter()
        """Of them: lost, landed late."""
        self._flight: list[Entry] = []
        self._due: dict[int, Entry] = {}
        """Entries that land before the step with this number."""
        self._n_steps = 0
        self._held: list[tuple[int | None, bool]] = []
        """Of each of the next entries: the steps after which it lands, and whether its sender gets no other answer."""

    def step(self) -> None:
        """Note that a process is about to read or to change the table; what is due lands before."""
        self._n_steps += 1
        if self._n_steps in self._due:
            self._land(self._due.pop(self._n_steps))

    def sent(self, entry: Entry | None) -> Outcome | None:
        """Note that an entry is sent; return what becomes of it if it does not arrive now."""
        if entry is None:
            return None
        self._note(entry)
        if not self._held:
            return None
        delay, away = self._held.pop()
        self._happened["held back"] += entry.has_rows
        if delay is None:
            self._flight.append(entry)
        else:
            self._due[self._n_steps + delay] = entry
        return Outcome(arrives=False, away=away)

    def not_answered(self, entry: Entry | None, *, arrives: bool) -> None:
        """Note that an entry is sent whose answer is lost, or that is lost itself."""
        if entry is not None:
            self._note(entry)
            self._happened["lost"] += entry.has_rows and not arrives

    def _note(self, entry: Entry) -> None:
        if entry.has_rows:
            self._sent.append(entry.metadata["tideline_attempt"])

    def apply(self, operation: Hold | Land | Lose, random: Random) -> None:
        """Hold the next entries back, or decide one that is in flight."""
        match operation:
            case Hold():
                self._held += [(random.choice(_DELAYS), random.random() < 0.5) for _ in range(operation.count)]
            case Land() if self._flight:
                self._land(self._flight.pop(operation.commit % len(self._flight)))
            case Lose() if self._flight:
                self._happened["lost"] += self._flight.pop(operation.commit % len(self._flight)).has_rows

    def land_all(self) -> None:
        """Let all entries in flight arrive, long after all that has happened since."""
        for entry in (*self._due.values(), *self._flight):
            self._land(entry)

    def _land(self, entry: Entry) -> None:
        try:
            _put(entry)
        except CommitFailedError:
            return
        self._happened["landed late"] += entry.has_rows

    def n_files(self) -> int:
        """Return how many files the table has."""
        self.log.read()
        return len(self.log.files())

    def left_over(self) -> list[str]:
        """Return the files of attempts that no version of the table has had."""
        self.log.read()
        there = {str(path.relative_to(self._folder)) for path in self._folder.glob("tideline/[0-9]*/*/*.parquet")}
        return sorted(there.difference(self.log.known()))

    def counts(self) -> Counter[str]:
        """Return how many commits of rows the acting processes have sent, and how many of them have landed, landed late
        (after their sender got no answer), were refused and were lost. Some were held back."""
        self.log.read()
        found = Counter({"sent": len(self._sent)}) + self._happened
        found["landed"] = len({str(commit.attempt) for commit in self.log.commits}.intersection(self._sent))
        found["refused"] = found["sent"] - found["landed"] - found["lost"]
        return found


def _put(entry: Entry) -> None:
    """Send an entry, as its sender would."""
    removed = [RemoveAction(**one) for one in entry.removed]
    properties = CommitProperties(
        app_transactions=[Transaction(*one) for one in entry.transactions],
        custom_metadata=dict(entry.metadata),
        max_commit_retries=0,
    )
    DeltaTable(entry.uri, version=entry.behind).create_write_transaction(
        [*entry.added, *removed],
        mode=entry.mode,
        schema=Schema.from_json(entry.schema),
        partition_by=list(entry.partition_by),
        commit_properties=properties,
    )
