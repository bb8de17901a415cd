"""A ledger that does not answer is said on the page, and looks different from an empty one."""

import pytest
from playwright.sync_api import expect

import website
from page_reading import serious


@pytest.fixture(scope="module")
def site(tmp_path_factory, postgres, broker):
    """Start a page of its own, because it has no pipeline."""
    with website.running(tmp_path_factory.mktemp("away"), postgres, broker, name="away") as running:
        yield running


def test_without_pipelines_the_page_says_how_to_begin(open_as):
    page = open_as("viewer")
    expect(page.locator(".nothing")).to_contain_text("There is no pipeline yet")


def test_a_ledger_that_is_away_is_named_with_the_next_step(open_as, site):
    site.proxy.refuse()
    page = open_as("viewer")
    expect(page.locator(".banner.away")).to_contain_text("the ledger's database cannot be reached")
    expect(page.locator(".banner.away")).to_contain_text("Next: check that Postgres is up")
    assert page.locator(".nothing, table").count() == 0
    assert serious(page) == []
    with site.client("viewer") as client:
        assert client.get("/tideline/").status_code == 503
