"""A ledger that does not answer is said on the page, and looks different from an empty one."""

from playwright.sync_api import expect

from page_reading import serious


def test_without_pipelines_the_page_says_how_to_begin(open_as):
    """For a person who may see the DAG of none, there is none."""
    page = open_as("stranger")
    expect(page.locator(".nothing")).to_contain_text("There is no pipeline yet")
    assert page.locator("table").count() == 0


def test_a_ledger_that_is_away_is_named_with_the_next_step(open_as, site):
    with site.without_ledger():
        page = open_as("viewer")
        expect(page.locator(".banner.away")).to_contain_text("the ledger's database cannot be reached")
        expect(page.locator(".banner.away")).to_contain_text("Next: check that Postgres is up")
        assert page.locator(".nothing, table").count() == 0
        assert serious(page) == []
        with site.client("viewer") as client:
            assert client.get("/tideline/").status_code == 503
