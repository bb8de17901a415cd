"""What tests read from a page in Chromium, and what they wait for."""

from playwright.sync_api import Locator, Page, expect

import chromium


def settled(page: Page) -> None:
    """Wait until every part has loaded, and the overview has been sorted by what the brokers said."""
    expect(page.locator("[data-asking]")).to_have_count(0, timeout=120_000)
    expect(page.locator(".loading")).to_have_count(0, timeout=120_000)


def pipelines(page: Page) -> list[str]:
    """Return the names on the overview, in order."""
    return page.locator("#overview tbody th").all_inner_texts()


def of_pipeline(page: Page, name: str) -> Locator:
    """Return the rows of a pipeline on the overview."""
    link = page.get_by_role("link", name=name, exact=True)
    return page.locator("#overview tbody").filter(has=link)


def serious(page: Page) -> list[tuple[str, list[str]]]:
    """Return what axe-core finds serious or critical, each with the first elements."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(chromium.axe())
    # Of what is as it should be one element is listed, and not each with its place in the page.
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [
        (one["id"], [node["html"][:150] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
