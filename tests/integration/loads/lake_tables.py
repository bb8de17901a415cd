"""Delta tables in a local folder, in an object store, or in a file system that can be unmounted: loaded by a pipeline, or by hand.

They are read with DuckDB."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from pyarrow import fs

from given_ledger.ledgers import query
from given_ledger.planners import NAME, Brokerless, run
from identities import batch
from loads.loading import Loading
from loads.outside_log import KilledError, Scene, killed
from servers.s3_server import Store
from tideline import flow
from tideline.declaration.delta import DeltaSink
from tideline.domain.checks import Check
from tideline.domain.receipts import Receipt
from tideline.flow import settling
from tideline.ledger import invariants
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written
from tideline.reports.checks.outside import MOST, receipts
from tideline.sinks.delta import delta_files, delta_log, delta_table
from tideline.sinks.delta.delta_log import Change, Location
from tideline.sinks.delta.delta_table import COORDINATES, DeltaOutput
from tideline.sinks.delta.sink import DeltaTableSink
from tideline.sinks.sink import Publication, StagedCommit
from tideline.spark_jobs import publishing

COLUMNS = pa.unify_schemas([COORDINATES, pa.schema([("value", pa.string())])])
TOPIC_ID = str(UUID(int=7))
_SECRET = ("aws_access_key_id", "aws_secret_access_key")


def own(fence: int) -> Receipt:
    """Return the receipt of a new attempt."""
    return Receipt(fence=fence, attempt=uuid4())


@dataclass(frozen=True, slots=True)
class Lake:
    """A place for tables."""

    root: str
    options: dict[str, str]
    """What `sink.storage` has."""

    @property
    def secrets(self) -> dict[str, str]:
        """Return the variables of the environment that `declared` names."""
        return {name.upper(): value for name, value in self.options.items() if name in _SECRET}

    def declared(self, name: str = "lake") -> dict[str, object]:
        """Return keys of the section `sink` for a table."""
        storage = {name: {"env": name.upper()} if name in _SECRET else value for name, value in self.options.items()}
        return {"kind": "delta", "path": f"{self.root}/{name}", **({"storage": storage} if storage else {})}

    def location(self, name: str = "events") -> Location:
        """Return where a table is."""
        return Location(pipeline="events", uri=f"{self.root}/{name}", options=delta_log.safe(self.root, self.options))

    def created(self, name: str = "events") -> "Table":
        """Create a table."""
        output = DeltaOutput(location=self.location(name))
        output.create(COLUMNS)
        return Table(output)


@dataclass(frozen=True, slots=True)
class Table:
    """A table, as its sink and as a reader."""

    output: DeltaOutput

    def staged(self, batch_id: int, fence: int, offsets: Sequence[int]) -> AddAction:
        """Write a file with one row for each offset, and return the action that adds it."""
        rows = pa.table(
            {
                "kafka_topic_id": [TOPIC_ID] * len(offsets),
                "kafka_partition": [0] * len(offsets),
                "kafka_offset": list(offsets),
                "tideline_batch": [batch_id] * len(offsets),
                "value": [f"attempt {fence}"] * len(offsets),
            },
            schema=COLUMNS,
        )
        path = f"{delta_files.folder(batch(batch_id).identity, own(fence))}/{uuid4().hex}.parquet"
        location = self.output.location
        files = fs.PyFileSystem(DeltaStorageHandler(location.uri, dict(location.options)))
        with files.open_output_stream(path) as out:
            pq.write_table(rows, out)
        stats = json.dumps(
            {
                "numRecords": len(offsets),
                "minValues": {"kafka_topic_id": TOPIC_ID, "kafka_partition": 0, "kafka_offset": min(offsets)},
                "maxValues": {"kafka_topic_id": TOPIC_ID, "kafka_partition": 0, "kafka_offset": max(offsets)},
                "nullCount": {},
            }
        )
        return AddAction(path, files.get_file_info(path).size, {}, int(time.time() * 1000), True, stats)

    def commit(self, batch_id: int, attempt: Receipt, offsets: Sequence[int]) -> Receipt:
        """Stage and commit one row for each offset."""
        added: list[Change] = [self.staged(batch_id, attempt.fence, offsets)] if offsets else []
        return self.output.commit(batch(batch_id), attempt, lambda _: added, ranges=str(offsets))

    def rows(self) -> list[tuple[int, int, str]]:
        """Return batch, offset and value of each row."""
        found = self.reopened().to_pyarrow_table()
        columns = ("tideline_batch", "kafka_offset", "value")
        return sorted(zip(*(found.column(name).to_pylist() for name in columns), strict=True))

    def reopened(self) -> DeltaTable:
        """Return the newest version of the table."""
        table = self.output.location.open()
        if table is None:
            raise LookupError(self.output.location.uri)
        return table


def in_folder(folder: Path) -> Lake:
    """Return a lake in a local folder."""
    return Lake(str(folder), {})


def in_store(store: Store) -> Lake:
    """Return a lake in an object store: a new one each time."""
    return Lake(f"s3://{store.bucket}/{uuid4().hex}", store.options)


def into_lake(loading: Loading, lake: Lake, **sink: object) -> None:
    """Let the declared pipeline write to a table of a lake. `sink` holds more keys of the section."""
    declaration = json.loads((loading.folder / "pipeline.yaml").read_text())
    declaration["sink"] = {**lake.declared(), **sink}
    (loading.folder / "pipeline.yaml").write_text(json.dumps(declaration))
    (loading.folder / "target.sql").unlink(missing_ok=True)


def output(loading: Loading) -> DeltaOutput:
    """Return the table of the pipeline."""
    return delta_table.sink(loading.pipeline)


def lake_rows(loading: Loading) -> dict[tuple[int, int], tuple[Any, ...]]:
    """Return the rows that DuckDB reads, by partition and offset; fail if a coordinate is there twice."""
    found = lake_query(loading, "SELECT kafka_partition, kafka_offset, id, name, price FROM lake")
    rows = {(row[0], row[1]): row[2:] for row in found}
    assert len(rows) == len(found)
    return rows


def lake_owners(loading: Loading) -> Mapping[int, int]:
    """Return the batch that each row belongs to, by offset."""
    return dict(lake_query(loading, "SELECT kafka_offset, tideline_batch FROM lake"))


def lake_query(loading: Loading, sql: str) -> list[tuple[Any, ...]]:
    """Return what DuckDB answers; the table is called `lake`."""
    table = output(loading).location.open()
    assert table is not None
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("lake", table.to_pyarrow_dataset())
        return connection.execute(sql).fetchall()


def files(loading: Loading) -> set[str]:
    """Return the files of all attempts that are in the table's folder."""
    return {file.path for file in delta_files.staged(output(loading).location)}


def committed(loading: Loading) -> set[str]:
    """Return the files that the table consists of."""
    table = output(loading).location.open()
    assert table is not None
    return {*table.get_add_actions(flatten=True).column("path").to_pylist()}


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

    def count(self, _: Publication) -> StagedCommit:
        """Return that each record has become a row."""
        return StagedCommit(Written(n_written={piece.stream_id: N for piece in self.attempt.ranges}), N)

    def commit(self, _: Publication, __: StagedCommit) -> Receipt:
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
        output = DeltaTableSink().prepare(self.ledger, self.ads.pipeline, attempt, _PRODUCED).output
        self.stage(attempt)
        [piece] = attempt.ranges
        rows = Table(output).staged(attempt.batch_id, attempt.fence, range(piece.offsets.start, piece.offsets.end))
        return Attempted(output=output, attempt=attempt, rows=rows, **doors)

    def write(self, attempted: Attempted) -> None:
        """Intend, commit and settle."""
        publishing.publish(self.publication(attempted.attempt), attempted)

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
