"""Simulate an outside sink: a log of commits that is changed by compare-and-set, and commits in flight.

A commit that was sent lands, or is lost, at any later time: before or after another attempt fences the batch, after the
batch was abandoned, or never. Its sender may be dead by then.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from faults.checker.facts import Commit
from faults.memory import MemoryDatabase
from faults.memory.rows import Key, OutputRow, StagedRow
from faults.operations import Hold, Land, Lose
from faults.simulation.actors import OUTSIDE, SENT, Scheduler
from tideline.domain.receipts import BatchIdentity, Found, Receipt, committed_by, data, found, marker, needs_marker
from tideline.domain.states import BatchKind
from tideline.errors import RetryableError, SupersededError
from tideline.ledger.attempts import Attempt, Range
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written
from tideline.sinks.postgres.sink import TableOutput
from tideline.sinks.sink import OutcomeUnknownError, Publication, StagedCommit
from tideline.sinks.staging_tables import staging_name


@dataclass(frozen=True, slots=True)
class InFlight:
    """A commit that was sent and has not arrived."""

    batch: BatchIdentity
    own: Receipt
    version: int | None
    """The version that its sender has seen."""
    rows: dict[Key, OutputRow]
    replaced: tuple[Range, ...]
    """The ranges whose rows it replaces."""


@dataclass(slots=True)
class SimulatedOutside:
    """The sink, as the ledger and the drivers see it."""

    scheduler: Scheduler
    broken: list[str]
    rows: dict[Key, OutputRow] = field(default_factory=dict)
    """What readers see."""
    commits: dict[UUID, Commit] = field(default_factory=dict)
    """By the identity of the batch: those whose rows readers see."""
    attempts: dict[UUID, UUID] = field(default_factory=dict)
    """By the identity of the batch, who has committed it. A restore takes rows back, and no receipts."""
    kept: tuple[dict[Key, OutputRow], dict[UUID, Commit]] | None = None
    """What readers saw at the moment of a backup."""
    flight: list[InFlight] = field(default_factory=list)
    versions: dict[UUID, int] = field(default_factory=dict)
    held: int = 0
    """How many of the next commits get no answer."""

    @property
    def remembers_days(self) -> float | None:
        return None

    @property
    def database(self) -> MemoryDatabase:
        return self.scheduler.database

    def fence(self, batch: BatchIdentity, fence: int) -> Receipt | None:
        self.scheduler.current.point(OUTSIDE)
        if needs_marker(self.versions.get(batch.identity), fence):
            self.versions[batch.identity] = marker(fence)
        return self._receipt(batch.identity)

    def look(self, batch: BatchIdentity) -> Receipt | None:
        self.scheduler.current.point(OUTSIDE)
        return self._receipt(batch.identity)

    def identities(self) -> list[UUID]:
        return list(self.versions)

    def _receipt(self, identity: UUID) -> Receipt | None:
        by = committed_by(self.versions.get(identity))
        if by is None:
            return None
        return Receipt(fence=by, attempt=self.attempts[identity], gone=identity not in self.commits)

    def commit(self, one: InFlight) -> None:
        """Send a commit, and wait for its answer.

        Raises:
            SupersededError: Another attempt has committed or fenced the batch.
            OutcomeUnknownError: No answer came.
        """
        self._check(one)
        self.flight.append(one)
        self.scheduler.tally.outside["sent"] += 1
        try:
            self.scheduler.current.point(SENT)
            if self.held:
                self.held -= 1
                raise RetryableError("no answer", next_step="wait")  # noqa: TRY301 - as the point does
        except RetryableError as error:
            raise OutcomeUnknownError("the sink did not answer a commit", next_step="run the task again") from error
        if one in self.flight:
            self.land(self.flight.index(one))
        self._check(one)
        if committed_by(self.versions.get(one.batch.identity)) is None:
            raise OutcomeUnknownError("a commit was lost", next_step="run the task again")

    def _check(self, one: InFlight) -> None:
        if (
            found(self.versions.get(one.batch.identity), self._receipt(one.batch.identity), own=one.own)
            is Found.SUPERSEDED
        ):
            raise SupersededError("the batch has another version", next_step="nothing")

    def land(self, number: int) -> None:
        """Let a commit arrive: it takes effect if the version is still the one that its sender has seen."""
        if not self.flight:
            return
        one = self.flight.pop(number % len(self.flight))
        if self.versions.get(one.batch.identity) != one.version:
            self.scheduler.tally.outside["refused"] += 1
            return
        self.scheduler.tally.outside["landed"] += 1
        self.versions[one.batch.identity] = data(one.own.fence)
        for key in [key for key in self.rows if any(_is_in(piece, key) for piece in one.replaced)]:
            del self.rows[key]
        if twice := sorted(key[:3] for key in self.rows.keys() & one.rows.keys()):
            self.broken.append(f"{one.batch} makes rows visible a second time: {twice[:3]}")
        self.rows |= one.rows
        self.attempts[one.batch.identity] = one.own.attempt
        self.commits[one.batch.identity] = Commit(one.batch.batch_id or 0, one.own.attempt, len(one.rows))

    def apply(self, operation: Hold | Land | Lose) -> None:
        """Hold the next commits back, or decide one that is in flight."""
        match operation:
            case Hold():
                self.held = operation.count
            case Land():
                self.land(operation.commit)
            case Lose():
                self.lose(operation.commit)

    def keep(self) -> None:
        """Note what readers see at the moment of a backup of the ledger."""
        self.kept = dict(self.rows), dict(self.commits)

    def restore(self) -> None:
        """Restore the output to the moment of the last backup, as the ledger is. Its versions stay."""
        if self.kept is not None:
            rows, commits = self.kept
            self.rows, self.commits = dict(rows), dict(commits)

    def taken_back(self) -> list[UUID]:
        """Return the batches that are committed, and whose rows a restore has taken back."""
        return [identity for identity in self.attempts if identity not in self.commits]

    def land_all(self) -> None:
        """Let every commit in flight arrive, long after all that has happened since."""
        while self.flight:
            self.land(0)

    def lose(self, number: int) -> None:
        """Lose a commit in flight."""
        if self.flight:
            self.flight.pop(number % len(self.flight))
            self.scheduler.tally.outside["lost"] += 1


def _is_in(piece: Range, key: Key) -> bool:
    return key[:2] == (piece.topic_id, piece.partition) and key[2] in piece.offsets


@dataclass(slots=True)
class SimulatedOutput:
    """The output of one attempt. Its rows are staged in Postgres."""

    sink: SimulatedOutside
    table: TableOutput
    key: Callable[[tuple[UUID, int, int], tuple[str, ...], tuple[object, ...]], Key]

    def clear(self, ledger: Ledger) -> None:
        self.table.clear(ledger)

    def _staged(self, publication: Publication) -> list[StagedRow]:
        attempt = publication.attempt
        name = staging_name(attempt)
        winners = {winner.task for winner in publication.winners}
        return [row for row in self.sink.database.staging.get(name, ()) if row.task in winners]

    def count(self, publication: Publication) -> StagedCommit:
        rows = self._staged(publication)
        if len(rows) != sum(winner.n_rows for winner in publication.winners):
            raise RetryableError(f"{publication.attempt}: staged rows are missing", next_step="run the task again")
        offsets = sorted({(row.stream_id, row.kafka_offset) for row in rows})
        n_written: dict[int, int] = {}
        for stream_id, _ in offsets:
            n_written[stream_id] = n_written.get(stream_id, 0) + 1
        return StagedCommit(Written(n_written=n_written, offsets=offsets), n_rows=len(rows))

    def commit(self, publication: Publication, staged: StagedCommit) -> Receipt:
        attempt = publication.attempt
        self.sink.scheduler.current.point(OUTSIDE)
        rows = self._staged(publication)
        if len(rows) != staged.n_rows:  # the server has crashed since they were counted
            raise RetryableError(f"{attempt}: staged rows are missing", next_step="run the task again")
        replaced = attempt.ranges if attempt.kind is BatchKind.REPLAY else ()
        made = {self._key(row): OutputRow(row.kafka_offset, self._owner(attempt, row), row.values) for row in rows}
        version = self.sink.versions.get(attempt.identity)
        self.sink.commit(InFlight(attempt.batch, attempt.receipt, version, made, replaced))
        return attempt.receipt

    def _key(self, row: StagedRow) -> Key:
        stream = self.sink.database.streams[row.stream_id]
        columns = tuple(column.name for column in self.table.target.columns)
        return self.key((stream.topic_id, stream.partition, row.kafka_offset), columns, row.values)

    def _owner(self, attempt: Attempt, row: StagedRow) -> int:
        """Return the batch that a row carries: that of a re-drive, the batch that had rejected its record."""
        if attempt.kind is not BatchKind.REDRIVE:
            return attempt.batch_id
        reject = self.sink.database.rejects.get((row.stream_id, row.kafka_offset))
        return attempt.batch_id if reject is None else reject.batch_id
