"""Records as a topic would hold them, and pipelines that are written from them."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tideline.authoring import scaffold
from tideline.authoring.survey import TopicSurvey, survey
from tideline.domain.facts import NewestRecords, RecordContent
from tideline.settings import PROJECT

NOW_MS = 1_795_000_000_000
CONNECTION = scaffold.SourceConnection(servers="broker-1:9092", security={}, registry={})


def newest(
    *values: Any,
    key: Callable[[int], bytes | None] | None = None,
    headers: Iterable[tuple[str, bytes | None]] = (),
    gappy: Iterable[str] = (),
) -> NewestRecords:
    """Return records with these values, as bytes or as JSON."""
    records = [
        RecordContent(
            topic="orders",
            partition=0,
            offset=offset,
            timestamp_ms=NOW_MS + offset,
            key=key(offset) if key else None,
            value=value if isinstance(value, bytes | None) else json.dumps(value).encode(),
            headers=tuple(headers),
        )
        for offset, value in enumerate(values)
    ]
    return NewestRecords(records=records, gappy=frozenset(gappy))


def surveyed(*values: Any, **rest: Any) -> TopicSurvey:
    return survey("orders", newest(*values, **rest))


def written(
    folder: Path,
    seen: TopicSurvey,
    *,
    name: str = "orders",
    values: bool = True,
    connection: scaffold.SourceConnection = CONNECTION,
) -> Path:
    """Write the folder of a pipeline, and return it."""
    pipeline = folder / name
    pipeline.mkdir()
    scaffold.write(pipeline, seen, connection=connection, table="shop.orders", schema=None, values=values)
    return pipeline


def own_tests(folder: Path) -> str:
    """Run the tests of the pipelines in a folder, all in one run of pytest; return what it prints. They must pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def linted(folder: Path) -> str:
    """Return what ruff finds in the pipelines of a folder. Its settings depend on the folder, so they are those of a pipeline's."""
    settings = ["--no-cache", "--config", str(PROJECT / "pyproject.toml"), str(folder)]
    ignored = "lint.per-file-ignores={'**'=['INP001', 'N812', 'S101']}"
    runs = [
        subprocess.run(
            [str(Path(sys.executable).parent / "ruff"), *command, *settings],
            capture_output=True,
            text=True,
            check=False,
        )
        for command in (["format", "--check"], ["check", "--config", ignored])
    ]
    return "".join(done.stdout + done.stderr for done in runs if done.returncode)
