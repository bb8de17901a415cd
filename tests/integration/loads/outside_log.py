"""An outside sink in memory, with one version for each batch, changed by compare-and-set; and attempts of a pipeline with it.

They are on a real ledger: they stage, die at a door of the commit, and are settled."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from given_ledger.decisions import reject
from given_ledger.ledgers import claim, query, stage
from given_ledger.planners import NAME, Brokerless, run
from tideline import flow
from tideline.declaration.delta import DeltaSink
from tideline.domain.receipts import BatchIdentity, Found, Receipt, committed_by, data, found, marker, needs_marker
from tideline.errors import RetryableError, SupersededError
from tideline.flow import settling
from tideline.ledger.attempts import Attempt, Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written
from tideline.sinks.delta.kind import DeltaTables
from tideline.sinks.sink import OutcomeUnknownError, Publication, StagedCommit
from tideline.spark_jobs.publishing import publish

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

    def count(self, publication: Publication) -> StagedCommit:
        written: dict[int, int] = {}
        for stream, _ in self.rows:
            written[stream] = written.get(stream, 0) + 1
        return StagedCommit(Written(n_written=written, offsets=self.rows), n_rows=len(self.rows))

    def commit(self, publication: Publication, staged: StagedCommit) -> Receipt:
        attempt = publication.attempt
        self.before()
        receipt = self.log.commit(attempt.batch, attempt.receipt, list(self.rows))
        self.after()
        return receipt


def unknown() -> None:
    """Lose the answer to a commit."""
    raise OutcomeUnknownError("the sink did not answer the commit", next_step="run the task again")


WHY = "the reason of a test"


class KilledError(Exception):
    """Where a process dies."""


def killed() -> None:
    """Die here."""
    raise KilledError


@dataclass(slots=True, kw_only=True)
class Scene:
    """One pipeline with an outside sink, ten records, and a ledger."""

    ledger: Ledger
    url: str
    ads: Brokerless
    log: OutsideLog = field(default_factory=OutsideLog)
    n_tries: int = 0

    @property
    def stream(self) -> int:
        """Return the id of the only stream."""
        [(stream,)] = query(self.ledger, "SELECT stream_id FROM tideline.stream")
        return int(stream)

    def plan(self, name: str = "first", request: Any = None) -> int:
        """Plan the only batch of a run."""
        [batch_id] = self.ads.plan(name, request)
        return int(batch_id)

    def claim(self, batch_id: int) -> Attempt:
        """Claim a batch for the next try of its task."""
        self.n_tries += 1
        writer = Writer(dag_id=NAME, run_id="first", task_id="write", try_number=self.n_tries)
        return claim(self.ledger, batch_id, writer=writer)

    def stage(self, attempt: Attempt, *rejected: int) -> list[Row]:
        """Read all records of a batch, and stage these rejects. Return the rows."""
        stage(self.ledger, attempt)
        if rejected:
            reject(self.ledger, attempt, self.stream, *rejected)
        return [
            (piece.stream_id, offset)
            for piece in attempt.ranges
            for offset in range(piece.offsets.start, piece.offsets.end)
            if offset not in rejected
        ]

    def output(self, attempt: Attempt, *rejected: int, **doors: Any) -> LogOutput:
        """Stage a batch, and return its output with something that happens before or after its commit."""
        return LogOutput(log=self.log, rows=self.stage(attempt, *rejected), **doors)

    def publish(self, attempt: Attempt, output: LogOutput, ledger: Ledger | None = None) -> Any:
        """Publish what an attempt has staged."""
        return publish(self.publication(attempt, ledger), output)

    def publication(self, attempt: Attempt, ledger: Ledger | None = None) -> Publication:
        """Return what the driver knows about a staged attempt."""
        return Publication(
            ledger=ledger or self.ledger,
            broker=self.ads.broker,
            pipeline=self.ads.pipeline,
            attempt=attempt,
            winners=[],
            reject=lambda refused: 0,
            filtered_by_difference=False,
        )

    def recover(self, attempt: Attempt) -> Any:
        """Fence earlier attempts, and settle what one has committed."""
        return settling.recover(self.ledger, self.ads.pipeline, attempt)

    def load(self, batch_id: int, *rejected: int) -> None:
        """Write a batch as a task does, and advance."""
        attempt = self.claim(batch_id)
        if self.recover(attempt) is None:
            self.publish(attempt, self.output(attempt, *rejected))
        flow.advance(self.ledger, NAME, run("first"))

    def counts(self, batch_id: int) -> tuple[int, int, int]:
        """Return how many records were read, written and rejected."""
        text = "SELECT n_read::int, n_written::int, n_rejected::int FROM tideline.batch_range WHERE batch_id = %s"
        return query(self.ledger, text, batch_id)[0]

    def known(self, batch_id: int) -> BatchIdentity:
        """Return what a batch is called outside of the ledger."""
        [(identity,)] = query(self.ledger, "SELECT identity FROM tideline.batch WHERE batch_id = %s", batch_id)
        return BatchIdentity(identity, batch_id)

    def written_by(self, batch_id: int) -> int:
        """Return the fence of the attempt whose commit the batch is."""
        text = "SELECT a.fence FROM tideline.batch b JOIN tideline.attempt a ON a.attempt_id = b.written_by WHERE b.batch_id = %s"
        return int(query(self.ledger, text, batch_id)[0][0])


@pytest.fixture
def scene(ledger: Ledger, ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Return a scene whose pipeline writes to a log in memory instead of a Delta table."""
    ads = Brokerless(ledger, 10)
    ads.pipeline = ads.pipeline.model_copy(update={"sink": DeltaSink(kind="delta", path="/lake")})
    made = Scene(ledger=ledger, url=ledger_url, ads=ads)
    monkeypatch.setattr(DeltaTables, "outside", lambda *_, **__: made.log)
    monkeypatch.setattr(settling, "load_named", lambda _: ads.pipeline)
    return made


def all_rows(scene: Scene, *without: int) -> list[Row]:
    """Return the rows of all ten records without these offsets."""
    return [(scene.stream, offset) for offset in range(10) if offset not in without]


def failed(scene: Scene, **doors: Any) -> tuple[int, Attempt]:
    """Let a first attempt fail at a door of its commit."""
    batch = scene.plan()
    first = scene.claim(batch)
    with pytest.raises(KilledError):
        scene.publish(first, scene.output(first, **doors))
    query(scene.ledger, "UPDATE tideline.attempt SET heartbeat_at = heartbeat_at - interval '1 hour'")
    return batch, first
