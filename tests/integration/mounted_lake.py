"""A pipeline whose Delta table lies in a file system that can be unmounted, on a real ledger, without Kafka and Spark."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from brokerless_planning import Brokerless
from identities import batch
from lake_tables import Table
from ledger_queries import query
from outside_scene import KilledError, Scene, killed
from planners import NAME, run
from spark_jobs.sinks import outside
from spark_jobs.sinks.delta.sink import LakeSink
from spark_jobs.sinks.outside import Staged
from spark_jobs.sinks.sink import Publication
from tideline import flow
from tideline.cli.checks import Check
from tideline.cli.checks.outside import MOST, receipts
from tideline.declaration.delta import DeltaSink
from tideline.domain.receipts import Receipt
from tideline.flow import settling
from tideline.ledger import invariants
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written
from tideline.outside import delta_table
from tideline.outside.delta_table import DeltaOutput

N = 10
"""Records of each batch."""
_LONG_AGO = 1_000_000_000
_PRODUCED = pa.schema([("value", pa.string())])


def nothing() -> None:
    """Do nothing."""


@dataclass(slots=True, kw_only=True)
class Attempted:
    """An attempt that has prepared its table and staged its rows."""

    output: DeltaOutput
    attempt: Attempt
    rows: AddAction
    """The file with its rows."""
    before: Callable[[], object] = nothing
    """What happens just before its commit."""

    def count(self, _: Publication) -> Staged:
        """Return that each record has become a row."""
        return Staged(Written(n_written={piece.stream_id: N for piece in self.attempt.ranges}), N)

    def commit(self, _: Publication, __: Staged) -> Receipt:
        """Commit one row for each record."""
        self.before()
        return self.again()

    def again(self) -> Receipt:
        """Commit, as it does when it was frozen and thaws."""
        return self.output.commit(self.attempt.batch, self.attempt.receipt, lambda _: [self.rows], "")


@dataclass(slots=True, kw_only=True)
class Mounted(Scene):
    """The pipeline."""

    mount: Path
    table: Path = field(init=False)

    def __post_init__(self) -> None:
        """Name the table."""
        self.table = self.mount / "events"

    def unmount(self) -> None:
        """Leave an empty mount point."""
        self.mount.rename(f"{self.mount}.away")
        self.mount.mkdir()

    def mount_again(self) -> None:
        """Fails if anything was written meanwhile."""
        self.mount.rmdir()
        Path(f"{self.mount}.away").rename(self.mount)

    def prepared(self, attempt: Attempt, **doors: Any) -> Attempted:
        """Prepare the table, and stage all records."""
        output = LakeSink().prepare(self.ledger, self.ads.pipeline, attempt, _PRODUCED).output
        self.stage(attempt)
        [piece] = attempt.ranges
        rows = Table(output).staged(attempt.batch_id, attempt.fence, range(piece.offsets.start, piece.offsets.end))
        return Attempted(output=output, attempt=attempt, rows=rows, **doors)

    def write(self, attempted: Attempted) -> None:
        """Intend, commit and settle."""
        outside.publish(self.publication(attempted.attempt), attempted)

    def loaded(self, name: str = "first") -> int:
        """Load a batch, and produce more records."""
        batch = self.plan(name)
        self.write(self.prepared(self.claim(batch)))
        flow.advance(self.ledger, NAME, run(name))
        self.ads.logs[0].append(N)
        return batch

    def doubtful(self) -> Attempted:
        """Return an attempt that was frozen between its intent and its commit."""
        attempted = self.prepared(self.claim(self.plan()), before=killed)
        with suppress(KilledError):
            self.write(attempted)
        self.fall_silent()
        return attempted

    def fall_silent(self) -> None:
        """Let the heartbeats of all attempts be an hour old."""
        query(self.ledger, "UPDATE tideline.attempt SET heartbeat_at = heartbeat_at - interval '1 hour'")

    def forget(self) -> None:
        """Let the log of the table be a year old, and remove what is older than its retention, as writers do."""
        # Writers remove only what lies before the last checkpoint.
        delta_table.sink(self.ads.pipeline).fence(batch(1_000_000), 1)
        table = DeltaTable(str(self.table))
        table.create_checkpoint()
        for file in (self.table / "_delta_log").iterdir():
            os.utime(file, (_LONG_AGO, _LONG_AGO))
        table.cleanup_metadata()
        assert [file.name for file in (self.table / "_delta_log").glob("*.json")] == [f"{table.version():020}.json"]

    def rows(self) -> list[tuple[int, int]]:
        """Return batch and offset of each row of the table."""
        return [row[:2] for row in Table(delta_table.sink(self.ads.pipeline)).rows()]


@pytest.fixture
def mounted(ledger: Ledger, ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mounted:
    """Return a pipeline with ten records to load."""
    ads = Brokerless(ledger, N)
    mount = tmp_path / "mnt"
    mount.mkdir()
    ads.pipeline = ads.pipeline.model_copy(update={"sink": DeltaSink(kind="delta", path=str(mount / "events"))})
    monkeypatch.setattr(settling, "load_named", lambda _: ads.pipeline)
    return Mounted(ledger=ledger, url=ledger_url, ads=ads, mount=mount)


def doctors(lake: Mounted) -> list[Check]:
    """Return what `tideline doctor` says about the receipts."""
    with lake.ledger.transaction():
        batches = invariants.outside_batches(lake.ledger, NAME, most=MOST)
    return list(receipts(lake.ledger, lake.ads.pipeline, batches))
