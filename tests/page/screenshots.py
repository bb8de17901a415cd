"""Take the screenshots of docs/page.md from a real Airflow and real pipelines: `make screenshots`."""

import re
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from playwright.sync_api import Page, Route, expect

import chromium
import conditions
import website
from tideline.settings import PROJECT
from tideline_stack.broker import LocalBroker
from tideline_stack.postgres import Postgres
from website import Website

_SHOTS = {
    "overview": "/plugin/tideline",
    "pipeline": "/tideline/pipelines/clicks",
    "stopped": "/tideline/pipelines/payments",
    "partition": "/tideline/pipelines/clicks/partitions/1",
    "batch": "/tideline/pipelines/orders/batches/4",
    "rejects": "/tideline/pipelines/clicks/rejects",
    "decision": "/tideline/pipelines/clicks/decisions/replay?batch=2",
}
_WIDTHS = {"": 1280, "-narrow": 390}


def main() -> int:
    """Write one file for each page, theme and width into .local/screenshots, and copy those that the docs show."""
    target = PROJECT / ".local" / "screenshots"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PROJECT / ".local") as folder:
        postgres = Postgres(Path(folder) / "postgres")
        broker = LocalBroker(Path(folder) / "kafka", PROJECT / ".local" / "jars" / "kafka")
        try:
            postgres.start()
            broker.start()
            with website.running(
                Path(folder), postgres, broker, fill=partial(conditions.declare_all, hostile=False)
            ) as site:
                _take(site, target)
        finally:
            broker.stop()
            postgres.stop()
    for name in re.findall(r"\(page/(\S+\.png)\)", (PROJECT / "docs" / "page.md").read_text(encoding="utf-8")):
        (PROJECT / "docs" / "page").mkdir(exist_ok=True)
        shutil.copy(target / name, PROJECT / "docs" / "page")
    print(f"look at all of them: {target.relative_to(PROJECT)}")
    return 0


def _take(site: Website, target: Path) -> None:
    with chromium.browser() as browser:
        for theme in ("light", "dark"):
            for suffix, width in _WIDTHS.items():
                context = browser.new_context(
                    base_url=site.url,
                    locale="en-US",
                    color_scheme="dark" if theme == "dark" else "light",
                    viewport={"width": width, "height": 900},
                )
                context.route(re.compile("/tideline/"), partial(_rename, site.folder))
                context.add_cookies([{"name": "_token", "value": site.token("admin"), "url": site.url}])
                for name, path in _SHOTS.items():
                    if name == "overview" and width < 800:
                        path = "/tideline/"  # noqa: PLW2901
                    page = context.new_page()
                    page.goto(path)
                    _settle(page, framed=path.startswith("/plugin"))
                    if name == "decision":
                        page.get_by_role("button", name="Show what it would do").click()
                        expect(page.get_by_role("heading", name="This is what it would do")).to_be_visible()
                    assert page.evaluate("document.documentElement.scrollWidth") <= width, (
                        f"{name} is wider than {width}"
                    )
                    page.screenshot(path=target / f"{name}-{theme}{suffix}.png", full_page=True)
                    page.close()
                context.close()


def _rename(folder: Path, route: Route) -> None:
    """Let messages name the folder of pipelines as in a checkout, and not the temporary one of these."""
    answer = route.fetch()
    body = answer.body().replace(str(folder.relative_to(PROJECT)).encode(), b"include/pipelines")
    route.fulfill(response=answer, body=body)


def _settle(page: Page, *, framed: bool) -> None:
    root = page.frame_locator("iframe") if framed else page
    expect(root.locator("h1").first).to_be_visible(timeout=60_000)
    expect(root.locator("[data-asking]")).to_have_count(0, timeout=60_000)
    expect(root.locator(".loading")).to_have_count(0, timeout=60_000)


if __name__ == "__main__":
    sys.exit(main())
