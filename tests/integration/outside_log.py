"""An outside sink in memory: one version for each batch, changed by compare-and-set, and the rows of each commit."""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from spark_jobs.sinks.outside import OutcomeUnknownError, Staged
from spark_jobs.sinks.sink import Publication
from tideline.domain.receipts import Found, Receipt, committed_by, data, found, marker, needs_marker
from tideline.errors import RetryableError, SupersededError
from tideline.ledger.publishing import Written

Row = tuple[int, int]
"""Stream and offset."""


@dataclass(slots=True)
class OutsideLog:
    """What readers of the sink see, and the part of the sink that the ledger asks."""

    rows: dict[int, list[Row]] = field(default_factory=dict)
    """By batch."""
    versions: dict[int, int] = field(default_factory=dict)
    attempts: dict[int, UUID] = field(default_factory=dict)
    """Who has committed each batch."""
    remembers_days: float | None = None
    answers: bool = True
    fenced: list[tuple[int, int]] = field(default_factory=list)
    """Batch and fence of each call."""

    def fence(self, batch_id: int, fence: int) -> Receipt | None:
        self._check_answers()
        self.fenced.append((batch_id, fence))
        if needs_marker(self.versions.get(batch_id), fence):
            self.versions[batch_id] = marker(fence)
        return self.look(batch_id)

    def look(self, batch_id: int) -> Receipt | None:
        self._check_answers()
        by = committed_by(self.versions.get(batch_id))
        return None if by is None else Receipt(fence=by, attempt=self.attempts[batch_id])

    def _check_answers(self) -> None:
        if not self.answers:
            raise RetryableError("the outside sink does not answer", next_step="run the task again")

    def commit(self, batch_id: int, own: Receipt, rows: list[Row]) -> Receipt:
        match found(self.versions.get(batch_id), self.look(batch_id), own=own):
            case Found.SUPERSEDED:
                raise SupersededError("the batch has another version", next_step="nothing")
            case Found.FREE:
                self.versions[batch_id] = data(own.fence)
                self.attempts[batch_id] = own.attempt
                self.rows[batch_id] = rows
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
        receipt = self.log.commit(
            attempt.batch_id, Receipt(fence=attempt.fence, attempt=attempt.attempt), list(self.rows)
        )
        self.after()
        return receipt


def unknown() -> None:
    """Lose the answer to a commit."""
    raise OutcomeUnknownError("the sink did not answer the commit", next_step="run the task again")
