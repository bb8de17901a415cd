"""The command line as people call it: in a process of its own, with an environment that the test declares."""

import json
import os
import subprocess
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg2
import pytest
from psycopg2.sql import SQL, Identifier, Literal

from given_ledger import ledgers
from secret_scan import Scan
from servers import cli_server
from servers.cli_server import TIDELINE
from tideline import flow
from tideline.declaration import pipelines
from tideline.deployment import secret
from tideline.domain.requests import NewRecords
from tideline.kafka.broker import Broker
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run

NAME = "impressions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cli:
    """A shell with its variables, and a folder of declared pipelines."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict, repr=False)  # one may hold a password

    @property
    def environment(self) -> dict[str, str]:
        """Return all variables; of Tideline's only those that the test declares."""
        # Variables that control Python are left out as well: with PYTHONUNBUFFERED, output takes another path than in most people's shells.
        foreign = ("TIDELINE_", "PYTHON")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return {**inherited, "TIDELINE_PIPELINES": str(self.folder), **self.variables}

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run `tideline` with the arguments, and expect this exit code."""
        done = cli_server.run(arguments, self.environment, timeout=120)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        assert not Scan().finds((done.stdout + done.stderr).encode()), f"tideline {arguments} shows a secret"
        return done

    def on_a_terminal(self, *arguments: str, columns: int) -> str:
        """Return what the command shows on a terminal of that width."""
        ours, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (24, columns))
        environment = {**self.environment, "TERM": "xterm-256color"}
        subprocess.run([str(TIDELINE), *arguments], env=environment, stdout=theirs, check=False)
        os.close(theirs)
        shown = os.read(ours, 100_000).decode()
        os.close(ours)
        return shown

    def json(self, *arguments: str, code: int = 0) -> Any:
        """Return the document that the command prints with --json."""
        return json.loads(self(*arguments, "--json", code=code).stdout)

    def error(self, *arguments: str, code: int) -> dict[str, Any]:
        """Return the error document on stderr with --json."""
        document: dict[str, Any] = json.loads(self(*arguments, "--json", code=code).stderr.splitlines()[-1])
        return document

    def declare(self, name: str, topic: str, *, start: str = "earliest", **more: Any) -> Path:
        """Declare a pipeline of raw bytes at the brokers of TIDELINE_KAFKA; `more` are keys of pipeline.yaml. Return its folder."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        source = {
            "bootstrap_servers": {"env": "TIDELINE_KAFKA"},
            "topics": [topic],
            "start": start,
            "value": {"format": "bytes"},
        }
        declaration = {"description": "A test", "source": source, "sink": {"table": "ads.output"}, **more}
        (folder / "pipeline.yaml").write_text(json.dumps(declaration))  # JSON is YAML
        (folder / "target.sql").write_text("-- never run: these tests write no output\n")
        return folder


@contextmanager
def shell(folder: Path, ledger_url: str, bootstrap: str) -> Iterator[Cli]:
    """Yield the command line with a ledger and brokers, which this process finds as well. At the end, search the ledger for secrets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDELINE_KAFKA", bootstrap)
        variables = {
            "TIDELINE_LEDGER_URL": ledger_url,
            "TIDELINE_KAFKA": bootstrap,
            "TIDELINE_ACTOR": "cli ada@tower",
        }
        yield Cli(folder=folder, variables=variables)
    assert list(Scan().database(ledger_url)) == []


def table(done: subprocess.CompletedProcess[str]) -> list[dict[str, str]]:
    """Parse the first table of a plain answer: cells by heading. Columns are two spaces apart."""
    lines = done.stdout.split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


def plan(cli: Cli, ledger: Ledger, run_id: str) -> list[int]:
    """Plan new records of the pipeline, as a DAG run of that id does."""
    pipeline = pipelines.load(cli.folder / NAME)
    return flow.plan(ledger, Broker(pipeline.source), pipeline, Run(dag_id=NAME, run_id=run_id), NewRecords()).batch_ids


def load(cli: Cli, ledger: Ledger, *, rejected: int = 0) -> int:
    """Plan the records of the pipeline's topic with one partition, publish them with so many rejects, and advance; return the batch."""
    run_id = f"manual__{uuid4().hex[:8]}"
    (batch_id,) = plan(cli, ledger, run_id)
    attempt = ledgers.claim(ledger, batch_id)
    ledgers.stage(ledger, attempt)
    (piece,) = attempt.ranges
    with ledger.transaction():
        stage_rejects(ledger, attempt, piece.stream_id, range(piece.offsets.start, piece.offsets.start + rejected))
    ledgers.publish(ledger, attempt, written={piece.stream_id: len(piece.offsets) - rejected})
    flow.advance(ledger, NAME, Run(dag_id=NAME, run_id=run_id))
    return batch_id


def stage_rejects(
    ledger: Ledger,
    attempt: Attempt,
    stream_id: int,
    offsets: Sequence[int],
    *,
    reason: str = "not JSON",
    value: bytes = b"x",
    headers: bytes | None = None,
) -> None:
    """Stage rejects as the Spark job does."""
    ledger.run(
        "stage_rejects",
        attempt=attempt.attempt,
        stream_ids=[stream_id for _ in offsets],
        offsets=list(offsets),
        steps=["decode" for _ in offsets],
        reasons=[reason for _ in offsets],
        timestamps_ms=[None for _ in offsets],
        keys=[None for _ in offsets],
        values=[value for _ in offsets],
        headers=[headers for _ in offsets],
    )


@contextmanager
def reader_of(url: str) -> Iterator[str]:
    """Yield the same database's URL for a user who may only read the ledger."""
    name, password = f"reader_{uuid4().hex[:8]}", secret.marked("hush")
    admin = psycopg2.connect(url)
    admin.autocommit = True
    with admin.cursor() as cursor:
        cursor.execute(SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(Identifier(name), Literal(password)))
        cursor.execute(SQL("GRANT USAGE ON SCHEMA tideline TO {}").format(Identifier(name)))
        cursor.execute(SQL("GRANT SELECT ON ALL TABLES IN SCHEMA tideline TO {}").format(Identifier(name)))
        try:
            yield psycopg2.extensions.make_dsn(url, user=name, password=password)
        finally:
            cursor.execute(SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(Identifier(name)))
            admin.close()
