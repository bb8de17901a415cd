"""A ledger is restored to an earlier moment and its Delta table is not, or both are. These tests follow docs/operating.md, word by word."""

import re
import shlex
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pytest
from deltalake import DeltaTable
from psycopg2.extensions import parse_dsn

import records
from ledger_dump import at_server
from loads.loading import Loading
from servers import cli_process
from servers.cli_process import NAME, Cli
from tideline.settings import PROJECT

PAGE = (PROJECT / "docs" / "operating.md").read_text(encoding="utf-8").partition("\n## Restoring the ledger\n")[2]
RESTORE = re.search(r'^ +pg_restore (.*) --dbname "\$DATABASE" tideline\.dump$', PAGE, re.MULTILINE)[1].split()
SKIP = shlex.split(re.search(r"^ +tideline (skip .*)$", PAGE, re.MULTILINE)[1])
HOUR = 20
"""Records of each hour."""


@dataclass(slots=True)
class Hours:
    """A pipeline that loads each hour's records into a Delta table."""

    loading: Loading
    cli: Cli
    topic: str
    lake: Path
    n_hours: int = 0

    def hour(self) -> list[int]:
        """Produce the records of an hour, load them, and return the batches."""
        self.n_hours += 1
        records.produce(
            self.loading.bootstrap, self.topic, [f"hour {self.n_hours} record {number}" for number in range(HOUR)]
        )
        return self.loading.run()

    def identities(self) -> dict[int, str]:
        return dict(self.loading.rows("SELECT batch_id, identity::text FROM tideline.batch"))

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
def hours(loading, tmp_path):
    """Load three hours. The ledger is dumped after the first one, and restored after the third."""
    here = replace(loading, folder=tmp_path / "declared" / NAME)
    with cli_process.shell(here.folder.parent, here.url, here.bootstrap) as shell:
        made = Hours(here, shell, records.create(here.bootstrap), tmp_path / "lake")
        here.declare(made.topic, value_format="bytes", sink={"kind": "delta", "path": str(made.lake)})
        (here.folder / "target.sql").unlink()
        assert made.hour() == [1]
        yield made


def restored(hours: Hours, tmp_path: Path) -> tuple[dict[int, str], list[tuple[int, bytes]], dict[Path, str]]:
    """Dump, load two more hours, and restore; return what was there before the restore: identities, rows, files."""
    url = hours.loading.url
    file, database = str(tmp_path / "tideline.dump"), parse_dsn(url)["dbname"]
    at_server("pg_dump", url, "--format=custom", f"--file={file}")
    assert (hours.hour(), hours.hour()) == ([2], [3])
    before = hours.identities(), hours.rows(), hours.contents()
    at_server("pg_restore", url, *RESTORE, f"--dbname={database}", file)
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
    assert hours.loading.run() == [2]
    assert hours.rows() == rows
    assert hours.hour() == [3]
    assert [offset for offset, _ in hours.rows()] == list(range(4 * HOUR))
    assert files.items() <= hours.contents().items(), "nothing is written over"
    assert {outcome for outcome, _ in hours.loading.attempts()} == {"published"}
