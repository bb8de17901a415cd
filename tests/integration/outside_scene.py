"""A pipeline with an outside sink in memory, on a real ledger: attempts that stage, die at a door of their commit, and are retried."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from brokerless_planning import Brokerless
from ledger_queries import query
from ledgers import claim, stage
from outside_log import LogOutput, OutsideLog, Row
from planners import NAME, run
from rejected_records import reject
from spark_jobs.sinks.outside import publish
from spark_jobs.sinks.sink import Publication
from tideline import flow, outside
from tideline.declaration.delta import DeltaSink
from tideline.domain.receipts import BatchIdentity
from tideline.flow import settling
from tideline.ledger.attempts import Attempt, Writer
from tideline.ledger.connection import Ledger

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
    monkeypatch.setattr(outside, "of", lambda pipeline, _: made.log if outside.is_outside(pipeline) else None)
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
