"""A page that is open shows what is true, or says since when it does not know; and it asks Kafka no more often than it must."""

import re

import pytest
from playwright.sync_api import expect

from given_topics import topics
from page_reading import of_pipeline, pipelines, settled


class Held:
    """Requests of the browser that wait until they are let go."""

    def __init__(self, page, pattern):
        self._waiting = []
        page.route(pattern, self._hold)

    def _hold(self, route):
        if self._waiting is None:
            route.continue_()
        else:
            self._waiting.append(route)

    def let_go(self):
        waiting, self._waiting = self._waiting, None
        for route in waiting:
            route.continue_()


@pytest.fixture
def overview(open_as):
    """Open the overview with a clock that a test can move on, so that the page asks again at once."""

    def opened(role="viewer", before=lambda page: None):
        page = open_as(role, "about:blank")
        page.clock.install()
        before(page)
        page.goto("/tideline/")
        return page

    return opened


def poll(page):
    with page.expect_response(re.compile("/tideline/$")):
        page.clock.fast_forward(31_000)


def as_of(page):
    return page.locator(".as-of time").inner_text()


def quiet(page):
    """Wait until every part has loaded, and until the page has just asked again: for half a minute it does not ask by itself.

    Some parts wait for brokers that are away, for almost as long: the next question would come in the middle of the test.
    """
    settled(page)
    moment = as_of(page)
    poll(page)
    expect(page.locator(".as-of time")).not_to_have_text(moment)
    settled(page)


def is_old(site, name):
    with site.client("viewer") as client:
        (row,) = (part for part in client.get("/tideline/").text.split("<tbody") if f">{name}</a>" in part)
    return 'class="lag number old"' in row


def test_an_overview_stays_while_the_ledger_is_away_and_recovers_by_itself(overview, site):
    page = overview()
    quiet(page)
    before, moment = pipelines(page), as_of(page)
    with site.without_ledger():
        poll(page)
        expect(page.locator("#away")).to_contain_text("the ledger's database cannot be reached")
        expect(page.locator("#away")).to_contain_text("what was true at the time above")
        assert pipelines(page) == before
        assert as_of(page) == moment
        poll(page)
        assert pipelines(page) == before
    poll(page)
    expect(page.locator("#away")).to_be_hidden()
    assert as_of(page) > moment
    assert set(pipelines(page)) == set(before)


def test_an_overview_whose_login_has_ended_says_so_and_stays(overview, site):
    page = overview()
    quiet(page)
    before = pipelines(page)
    cookies = page.context.cookies()
    page.context.clear_cookies()
    poll(page)
    expect(page.locator("#away")).to_contain_text("Your login to Airflow has ended")
    assert pipelines(page) == before
    page.context.add_cookies(cookies)
    poll(page)
    expect(page.locator("#away")).to_be_hidden()


def test_an_error_of_a_proxy_before_airflow_is_named(overview):
    page = overview()
    quiet(page)
    before = pipelines(page)
    page.route(re.compile("/tideline/$"), lambda route: route.fulfill(status=502, body="<h1>Bad Gateway</h1>"))
    poll(page)
    expect(page.locator("#away")).to_contain_text("502")
    assert pipelines(page) == before


def test_a_lag_that_cannot_be_asked_leaves_the_table_as_it_is(overview, site):
    site.forget_answers("clicks")
    page = overview(before=lambda page: setattr(page, "held", Held(page, "**/clicks/lag")))
    row = of_pipeline(page, "clicks")
    expect(row.locator("td.loading")).to_have_text(re.compile("asking Kafka"))
    with site.without_ledger():
        page.held.let_go()
        expect(row.locator("td.lag")).to_have_text("no answer")
        expect(page.locator("#away")).to_contain_text("the ledger's database cannot be reached")
        assert row.locator("tr").first.evaluate("row => [...row.children].every(one => /^T[DH]$/.test(one.tagName))")
        assert page.locator("#overview .banner").count() == 0
    poll(page)
    expect(row.locator("td.lag").first).to_have_text("30")


def test_a_broker_that_is_away_is_asked_once_by_a_page(overview, site):
    with site.client("viewer") as client:
        for name in ("clicks", "far_away"):
            client.get(f"/tideline/pipelines/{name}/lag")
        for _ in range(2):  # the second time begins after the answer of the broker that is away
            topics.until(lambda: is_old(site, "clicks"))
            client.get("/tideline/pipelines/clicks/lag")
    asked = []
    page = overview(before=lambda page: page.on("request", lambda request: asked.append(request.url)))
    settled(page)
    expect(of_pipeline(page, "far_away").locator("td.unreachable")).to_have_text("Kafka does not answer")
    page.wait_for_load_state("networkidle")
    assert sum(url.endswith("/far_away/lag") for url in asked) <= 1


def test_a_question_to_kafka_that_is_not_answered_looks_like_one(overview, site):
    site.forget_answers("clicks")
    page = overview(before=lambda page: setattr(page, "held", Held(page, "**/clicks/lag")))
    cell = of_pipeline(page, "clicks").locator("td.lag")
    expect(cell).to_have_class(re.compile("loading"))
    expect(cell).to_have_text("asking Kafka…")
    page.held.let_go()
    expect(cell.first).to_have_text("30")
    expect(cell.first).not_to_have_class(re.compile("loading"))


def test_the_map_says_that_kafka_is_asked(overview, site):
    page = overview()
    held = Held(page, "**/coverage?ask=true")
    page.goto("/tideline/pipelines/clicks")
    expect(page.locator("#partitions .loading")).to_have_text("asking Kafka for the ends of the logs…")
    expect(page.locator("#partitions .line")).to_have_count(3)
    held.let_go()
    settled(page)
    expect(page.locator("#partitions .line").first).to_contain_text("lag 10")


def test_an_old_answer_is_shown_as_old_until_kafka_has_answered_again(overview, site):
    asked = []

    def before(page):
        page.on("request", lambda request: asked.append(request.url))
        page.held = Held(page, "**/visits/lag")

    with site.client("viewer") as client:
        client.get("/tideline/pipelines/visits/lag")
    topics.until(lambda: is_old(site, "visits"))
    site.add("visits", 5)
    page = overview(before=before)
    cells = of_pipeline(page, "visits").locator("td.lag")
    expect(cells.first).to_have_class(re.compile("old"))
    expect(cells.first).to_have_attribute("title", re.compile(r"as of \d{4}-.*asking Kafka again"))
    before_answer = sum(url.endswith("/tideline/") for url in asked)
    page.held.let_go()
    expect(cells.first).to_have_text("5")
    expect(cells).to_have_count(3)
    settled(page)
    expect(page.locator("td.old")).to_have_count(0)
    page.wait_for_load_state("networkidle")
    assert sum(url.endswith("/tideline/") for url in asked) == before_answer + 1, "sorted again, once"


def test_a_pipeline_that_is_opened_directly_shows_what_its_brokers_say(overview, site):
    site.forget_answers("unborn", "far_away")
    page = overview()
    page.goto("/tideline/pipelines/unborn")
    expect(page.locator(".needs .fine")).to_contain_text("waits for its topic")
    page.goto("/tideline/pipelines/far_away")
    expect(page.locator(".needs .look")).to_contain_text("its brokers cannot be asked")


def test_the_map_of_a_pipeline_without_its_broker_ends_at_the_heads(overview):
    page = overview()
    page.goto("/tideline/pipelines/far_away")
    expect(page.locator("#partitions .banner.unreachable")).to_contain_text("Kafka does not answer.")
    expect(page.locator("#partitions .banner.unreachable")).to_contain_text("The map ends at the heads")
    expect(page.locator("#partitions .line")).to_contain_text("lag unknown")
    expect(page.locator("#partitions svg.bar")).to_have_attribute(
        "aria-label", re.compile("offsets 0 to 20: 20 loaded")
    )
