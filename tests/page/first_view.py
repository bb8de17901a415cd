"""Measure how long the pages take over a long history, through a real Airflow: about a quarter of an hour for the default million batches.

PYTHONPATH=tests:tests/integration:tests/page .local/env/bin/python tests/page/first_view.py [BATCHES]
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

import httpx

import large_ledger
import website
from tideline.ledger.connection import Ledger
from tideline.local.broker import Broker
from tideline.local.postgres import Postgres
from tideline.settings import PROJECT
from website import Website

_PIPELINES, _PARTITIONS = 50, 10
_WIDE = 500
"""The partitions of one more pipeline, which has as many batches as the others."""
_TIMES = 9
_PAGES = (
    "",
    "pipelines/p03",
    "pipelines/p03/coverage",
    "pipelines/p03/throughput",
    "pipelines/p03/batches",
    "pipelines/p03/reasons",
    "pipelines/p03/partitions/{stream}",
    "pipelines/p03/batches/{batch}",
    "pipelines/wide",
    "pipelines/wide/coverage",
)


def main() -> int:
    """Fill a ledger, and print the milliseconds of each page: the first time, and the median of the others."""
    batches = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(dir=PROJECT / ".local") as folder:
        postgres = Postgres(Path(folder) / "postgres", settings={"fsync": "off"})
        broker = Broker(Path(folder) / "kafka", PROJECT / ".local" / "jars" / "kafka")
        try:
            postgres.start()
            broker.start()
            with website.running(Path(folder), postgres, broker) as site:
                fill(site, batches // _PIPELINES)
                declare(site)
                measure(site)
        finally:
            broker.stop()
            postgres.stop()
    return 0


def fill(site: Website, batches: int) -> None:
    """Give each pipeline so many batches."""
    with Ledger(site.ledger_url, actor="test") as ledger:
        for number in range(_PIPELINES):
            name = f"p{number:02}"
            topic_id = str(UUID(int=100 + number))
            large_ledger.fill(ledger, name, batches=batches, partitions=_PARTITIONS, topic=name, topic_id=topic_id)
        large_ledger.fill(ledger, "wide", batches=batches, partitions=_WIDE, topic="wide", topic_id=str(UUID(int=99)))


def declare(site: Website) -> None:
    """Declare the pipelines."""
    for name in (*(f"p{number:02}" for number in range(_PIPELINES)), "wide"):
        shutil.rmtree(site.folder / name, ignore_errors=True)
        site.declare(name, name)


def measure(site: Website) -> None:
    """Print the milliseconds of each page."""
    ((stream, batch),) = site.rows(
        "SELECT (SELECT min(stream_id) FROM tideline.stream WHERE pipeline = 'p03'), max(batch_id) FROM tideline.batch WHERE pipeline = 'p03'"
    )
    ((known,),) = site.rows("SELECT count(*) FROM tideline.batch")
    print(f"{known:,} batches; milliseconds: the first time, the median of {_TIMES} more")
    with site.client("admin") as client:
        for page in _PAGES:
            path = f"/tideline/{page.format(stream=stream, batch=batch)}"
            first = _milliseconds(client, path)
            median = statistics.median(_milliseconds(client, path) for _ in range(_TIMES))
            print(f"{path:40} {first:8.0f} {median:8.0f}", flush=True)


def _milliseconds(client: httpx.Client, path: str) -> float:
    begin = time.perf_counter()
    answer = client.get(path)
    answer.raise_for_status()
    return (time.perf_counter() - begin) * 1000


if __name__ == "__main__":
    sys.exit(main())
