"""Measure how long the pages take over a long history, on the server and in Chromium. A million batches take minutes to create.

Everything runs on this machine, a real Airflow too. A view begins with the click, in a browser that has kept nothing.

PYTHONPATH=tests:tests/integration:tests/page .local/env/bin/python tests/page/first_view.py [BATCHES]
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

import httpx
from playwright.sync_api import Browser, Page

import chromium
import large_ledger
import website
from tideline.ledger.connection import Ledger
from tideline.settings import PROJECT
from tideline_stack.broker import LocalBroker
from tideline_stack.postgres import Postgres
from website import Website

_PIPELINES, _PARTITIONS = 50, 10
_NAMES = [f"p{number:02}" for number in range(_PIPELINES)]
_WIDE, _WIDE_PARTITIONS = "wide", 500
"""One more pipeline, which has as many batches as the others."""
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
    "pipelines/wide/throughput",
)
_VIEWS = {"overview": "", "pipeline of 10 partitions": "pipelines/p03", "pipeline of 500 partitions": "pipelines/wide"}
_FIRST_VIEW_TARGET = 300
"""Milliseconds until a person sees the content of a page."""
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_MAP_IS_SHOWN = "() => document.querySelector('.bars svg') && performance.now()"


def main() -> int:
    """Fill a ledger, and print the milliseconds of each page. Return whether every first view meets its target."""
    met = False
    batches = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(dir=PROJECT / ".local") as folder:
        postgres = Postgres(Path(folder) / "postgres", settings={"fsync": "off"})
        broker = LocalBroker(Path(folder) / "kafka", PROJECT / ".local" / "jars" / "kafka")
        try:
            postgres.start()
            broker.start()
            with website.running(Path(folder), postgres, broker) as site:
                fill(site, batches // _PIPELINES)
                declare(site)
                measure(site)
                met = view(site)
        finally:
            broker.stop()
            postgres.stop()
    return 0 if met else 1


def fill(site: Website, batches: int) -> None:
    """Give each pipeline so many batches."""
    with Ledger(site.ledger_url, actor="test") as ledger:
        large_ledger.fill(ledger, *_NAMES, batches=batches, partitions=_PARTITIONS, topic_id=str(UUID(int=100)))
        large_ledger.fill(ledger, _WIDE, batches=batches, partitions=_WIDE_PARTITIONS, topic_id=str(UUID(int=99)))


def declare(site: Website) -> None:
    """Declare the pipelines."""
    for name in (*_NAMES, _WIDE):
        shutil.rmtree(site.folder / name, ignore_errors=True)
        site.declare(name, "ads")


def measure(site: Website) -> None:
    """Print the milliseconds of each page on the server, and its size."""
    ((stream, batch),) = site.rows(
        "SELECT (SELECT min(stream_id) FROM tideline.stream WHERE pipeline = 'p03'), max(batch_id) FROM tideline.batch WHERE pipeline = 'p03'"
    )
    ((known,),) = site.rows("SELECT count(*) FROM tideline.batch")
    print(f"{known:,} batches; {os.cpu_count()} cores, load before: {_load()}")
    print(f"on the server: kB, milliseconds the first time, and the median of {_TIMES} more")
    with site.client("admin") as client:
        for page in _PAGES:
            path = f"/tideline/{page.format(stream=stream, batch=batch)}"
            first, size = _asked(client, path)
            median = statistics.median(_asked(client, path)[0] for _ in range(_TIMES))
            print(f"{path:40} {size / 1000:8.0f} {first:8.0f} {median:8.0f}", flush=True)


def view(site: Website) -> bool:
    """Print the milliseconds of each view in Chromium. Return whether their medians meet the target."""
    print(f"load before: {_load()}")
    print(
        f"in Chromium, the median of {_TIMES}: milliseconds until the first content (at most {_FIRST_VIEW_TARGET}), and until the map"
    )
    met = True
    with chromium.browser() as browser:
        for name, path in _VIEWS.items():
            seen = [_viewed(browser, site, path) for _ in range(_TIMES)]
            painted = statistics.median(one for one, _ in seen)
            mapped = [one for _, one in seen if one is not None]
            print(f"{name:40} {painted:8.0f} {f'{statistics.median(mapped):8.0f}' if mapped else ''}", flush=True)
            met = met and painted <= _FIRST_VIEW_TARGET
    return met


def _load() -> str:
    """Return how many processes want a core, which says whether other work disturbs."""
    return ", ".join(f"{load:.1f}" for load in os.getloadavg())


def _asked(client: httpx.Client, path: str) -> tuple[float, int]:
    begin = time.perf_counter()
    answer = client.get(path)
    answer.raise_for_status()
    return (time.perf_counter() - begin) * 1000, len(answer.content)


def _viewed(browser: Browser, site: Website, path: str) -> tuple[float, float | None]:
    context = browser.new_context(base_url=site.url, viewport={"width": 1280, "height": 900})
    try:
        context.add_cookies([{"name": "_token", "value": site.token("admin"), "url": site.url}])
        page = context.new_page()
        page.goto(f"/tideline/{path}", wait_until="commit")
        mapped = _moment(page, _MAP_IS_SHOWN) if path else None
        return _moment(page, _PAINTED), mapped
    finally:
        context.close()


def _moment(page: Page, script: str) -> float:
    """Wait until a script returns the milliseconds since the page was asked for, and return them."""
    return float(page.wait_for_function(script, polling=5).json_value())


if __name__ == "__main__":
    sys.exit(main())
