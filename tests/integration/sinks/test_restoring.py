"""A ledger is restored to an earlier moment and its Delta table is not, or both are. These tests follow docs/operating.md, word by word.

Each load has a driver of its own, as in production: the numbers of Spark's tasks begin anew in each.
"""

import re
import shlex
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from psycopg2.extensions import parse_dsn

from cli_process import NAME, Cli
from faults.jobs.spark_submit import Job
from ledger_dump import at_server
from ledger_queries import query
from tideline import flow
from tideline.declaration import pipelines
from tideline.domain.requests import NewRecords
from tideline.kafka.broker import Broker
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline.local import spark as spark_setup
from tideline.local.broker import Broker as LocalBroker
from tideline.settings import PROJECT

PAGE = (PROJECT / "docs" / "operating.md").read_text(encoding="utf-8").partition("\n## Restoring the ledger\n")[2]
RESTORE = re.search(r'^ +pg_restore (.*) --dbname "\$DATABASE" tideline\.dump$', PAGE, re.MULTILINE)[1].split()
SKIP = shlex.split(re.search(r"^ +tideline (skip .*)$", PAGE, re.MULTILINE)[1])
HOUR = 20
"""Records of each hour."""


@dataclass(slots=True)
class Hours:
    """A pipeline that loads each hour's records into a Delta table."""

    cli: Cli
    url: str
    topic: str
    broker: LocalBroker
    folder: Path
    n_runs: int = 0
    files: dict[str, str] = field(default_factory=dict)

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def hour(self) -> list[int]:
        """Produce the records of an hour and load them."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap})
        for number in range(HOUR):
            producer.produce(self.topic, f"hour {self.n_runs} record {number}".encode(), partition=0)
        assert producer.flush(60) == 0
        return self.run()

    def run(self) -> list[int]:
        """Load what is new in a process of its own, and return the batches."""
        self.n_runs += 1
        pipeline = pipelines.load(self.cli.folder / NAME)
        run = Run(dag_id=NAME, run_id=f"scheduled__{self.n_runs}")
        with Ledger(self.url, actor="test") as ledger:
            batches = flow.plan(ledger, Broker(pipeline.source), pipeline, run, NewRecords()).batch_ids
        variables = {
            **{name: text for name, text in self.cli.environment.items() if name.startswith("TIDELINE_")},
            "TIDELINE_SPARK_PROPERTIES": str(spark_setup.configure(self.folder / f"spark-{self.n_runs}")),
            "PYTHONPATH": f"{PROJECT}:{PROJECT / 'include'}",
        }
        log = self.folder / f"{self.n_runs}.log"
        job = Job(NAME, batches, run_id=run.run_id, try_number=1, variables=variables, log=log, master="local[1]")
        try:
            assert job.wait(400) == 0, log.read_text()
        finally:
            job.end()
        with Ledger(self.url, actor="test") as ledger:
            flow.advance(ledger, NAME, run)
        return list(batches)

    def identities(self) -> dict[int, str]:
        with Ledger(self.url, actor="test") as ledger:
            return dict(query(ledger, "SELECT batch_id, identity::text FROM tideline.batch"))

    def rows(self) -> list[tuple[int, bytes]]:
        """Return offset and value of each row that a reader sees."""
        found = DeltaTable(str(self.lake)).to_pyarrow_table(columns=["kafka_offset", "value"])
        return sorted(zip(found["kafka_offset"].to_pylist(), found["value"].to_pylist(), strict=True))

    def contents(self) -> dict[Path, str]:
        """Return a digest of each data file."""
        return {file: sha256(file.read_bytes()).hexdigest() for file in self.lake.glob("tideline/**/*.parquet")}

    def receipts(self, code: int) -> dict[str, str]:
        """Return what `tideline doctor` says of the receipts."""
        checks = self.cli.json("doctor", NAME, code=code)["checks"]
        [found] = [one for one in checks if one["check"] == "receipts"]
        return found


@pytest.fixture
def hours(cli, ledger_url, broker, topic, tmp_path):
    """Load three hours. The ledger is dumped after the first one, and restored after the third."""
    made = Hours(cli, ledger_url, topic, broker, tmp_path)
    cli.declare(NAME, topic, sink={"kind": "delta", "path": str(made.lake)})
    assert made.hour() == [1]
    return made


def restored(hours: Hours, tmp_path: Path) -> tuple[dict[int, str], list[tuple[int, bytes]], dict[Path, str]]:
    """Dump, load two more hours, and restore; return what was there before the restore: identities, rows, files."""
    file, database = str(tmp_path / "tideline.dump"), parse_dsn(hours.url)["dbname"]
    at_server("pg_dump", hours.url, "--format=custom", f"--file={file}")
    assert (hours.hour(), hours.hour()) == ([2], [3])
    before = hours.identities(), hours.rows(), hours.contents()
    at_server("pg_restore", hours.url, *RESTORE, f"--dbname={database}", file)
    return before


def test_after_a_restore_of_the_ledger_alone_each_row_of_before_is_there_once_and_further_runs_load(hours, tmp_path):
    known, rows, files = restored(hours, tmp_path)
    said = hours.receipts(code=30)
    assert said["verdict"] == "bad"
    for batch_id, offsets in ((2, "[20, 40)"), (3, "[40, 60)")):
        assert f"{known[batch_id]} by attempt 1 (batch {batch_id}, {hours.topic}/0 {offsets})" in said["found"]
    assert known[1] not in said["found"]
    skip = [f"{hours.topic}/0 [20, 60)" if word.endswith(")") else word for word in SKIP]
    assert skip != SKIP
    hours.cli(*skip)
    assert (hours.hour(), hours.hour()) == ([2], [3])
    assert {*hours.identities().values()}.isdisjoint({known[2], known[3]})
    assert hours.receipts(code=0)["verdict"] == "ok", "what lies in holes is not named for ever"
    found = hours.rows()
    assert [offset for offset, _ in found] == list(range(5 * HOUR))
    assert found[: 3 * HOUR] == rows
    assert files.items() <= hours.contents().items(), "nothing is written over"


def test_after_a_restore_of_ledger_and_table_to_one_moment_the_next_run_just_loads(hours, tmp_path):
    version = DeltaTable(str(hours.lake)).version()
    _, rows, files = restored(hours, tmp_path)
    DeltaTable(str(hours.lake)).restore(version)
    assert [offset for offset, _ in hours.rows()] == list(range(HOUR))
    assert hours.receipts(code=0)["verdict"] == "ok", "what a restore has taken back is not in the table"
    assert hours.run() == [2]
    assert hours.rows() == rows
    assert hours.hour() == [3]
    assert [offset for offset, _ in hours.rows()] == list(range(4 * HOUR))
    assert files.items() <= hours.contents().items(), "nothing is written over"
    with Ledger(hours.url, actor="test") as ledger:
        assert query(ledger, "SELECT DISTINCT outcome::text FROM tideline.attempt") == [("published",)]
