"""An outside sink in memory: one version for each batch, changed by compare-and-set, and the rows of each commit."""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from spark_jobs.sinks.outside import OutcomeUnknownError, Staged
from spark_jobs.sinks.sink import Publication
from tideline.domain.receipts import BatchIdentity, Found, Receipt, committed_by, data, found, marker, needs_marker
from tideline.errors import RetryableError, SupersededError
from tideline.ledger.publishing import Written

Row = tuple[int, int]
"""Stream and offset."""


@dataclass(slots=True)
class OutsideLog:
    """What readers of the sink see, and the part of the sink that the ledger asks."""

    rows: dict[int, list[Row]] = field(default_factory=dict)
    """By the number of the batch."""
    versions: dict[UUID, int] = field(default_factory=dict)
    """By the identity of the batch."""
    attempts: dict[UUID, UUID] = field(default_factory=dict)
    """Who has committed each batch."""
    gone: set[UUID] = field(default_factory=set)
    """Batches whose rows a restore has taken back. Their versions stay."""
    remembers_days: float | None = None
    answers: bool = True
    fenced: list[tuple[int | None, int]] = field(default_factory=list)
    """Batch and fence of each call."""
    looked: list[int | None] = field(default_factory=list)
    """Batch of each call that only looks."""

    def fence(self, batch: BatchIdentity, fence: int) -> Receipt | None:
        self._check_answers()
        self.fenced.append((batch.batch_id, fence))
        if needs_marker(self.versions.get(batch.identity), fence):
            self.versions[batch.identity] = marker(fence)
        return self._receipt(batch)

    def look(self, batch: BatchIdentity) -> Receipt | None:
        self._check_answers()
        self.looked.append(batch.batch_id)
        return self._receipt(batch)

    def identities(self) -> list[UUID]:
        self._check_answers()
        return list(self.versions)

    def _receipt(self, batch: BatchIdentity) -> Receipt | None:
        by = committed_by(self.versions.get(batch.identity))
        if by is None:
            return None
        return Receipt(fence=by, attempt=self.attempts[batch.identity], gone=batch.identity in self.gone)

    def _check_answers(self) -> None:
        if not self.answers:
            raise RetryableError("the outside sink does not answer", next_step="run the task again")

    def commit(self, batch: BatchIdentity, own: Receipt, rows: list[Row]) -> Receipt:
        match found(self.versions.get(batch.identity), self._receipt(batch), own=own):
            case Found.SUPERSEDED:
                raise SupersededError("the batch has another version", next_step="nothing")
            case Found.FREE:
                self.versions[batch.identity] = data(own.fence)
                self.attempts[batch.identity] = own.attempt
                self.rows[batch.batch_id or 0] = rows
        return own


def nothing() -> None:
    """Do nothing at a door."""


@dataclass(slots=True, kw_only=True)
class LogOutput:
    """The output of one attempt. `before` and `after` are called before and after its commit takes effect, and may raise."""

    log: OutsideLog
    rows: list[Row]
    before: Callable[[], object] = nothing
    after: Callable[[], object] = nothing

    def count(self, publication: Publication) -> Staged:
        written: dict[int, int] = {}
        for stream, _ in self.rows:
            written[stream] = written.get(stream, 0) + 1
        return Staged(Written(n_written=written, offsets=self.rows), n_rows=len(self.rows))

    def commit(self, publication: Publication, staged: Staged) -> Receipt:
        attempt = publication.attempt
        self.before()
        receipt = self.log.commit(attempt.batch, attempt.receipt, list(self.rows))
        self.after()
        return receipt


def unknown() -> None:
    """Lose the answer to a commit."""
    raise OutcomeUnknownError("the sink did not answer the commit", next_step="run the task again")
