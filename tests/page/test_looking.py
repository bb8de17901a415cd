"""What a person sees in Chromium: in Airflow's frame, in light and dark, on a desk and on a telephone, and with assistance."""

import json
import re

import pytest
from playwright.sync_api import expect

import chromium

WIDTHS = {"desk": 1280, "telephone": 390}
PLACES = {
    "overview": "/tideline/",
    "pipeline": "/tideline/pipelines/clicks",
    "stopped": "/tideline/pipelines/payments",
    "unreachable": "/tideline/pipelines/far_away",
    "partition": "/tideline/pipelines/clicks/partitions/1",
    "batch": "/tideline/pipelines/clicks/batches/1",
    "rejects": "/tideline/pipelines/clicks/rejects",
    "act": "/tideline/pipelines/clicks/acts/replay?batch=1",
    "unknown": "/tideline/pipelines/nothing",
}


def rows(page) -> list[str]:
    return page.locator("#overview tbody th").all_inner_texts()


def settled(page) -> None:
    """Wait until every part has loaded, and the overview has been sorted by what the brokers said."""
    expect(page.locator("[data-asking]")).to_have_count(0, timeout=120_000)
    expect(page.locator(".loading")).to_have_count(0, timeout=120_000)


def test_the_overview_opens_in_airflows_navigation(open_as):
    page = open_as("viewer", "/plugin/tideline")
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Pipelines")).to_be_visible()
    expect(frame.get_by_role("link", name="clicks", exact=True)).to_be_visible()


def test_the_pipeline_that_needs_a_person_is_first(open_as):
    page = open_as("viewer")
    settled(page)
    expect(page.locator("tbody", has_text="unborn")).to_contain_text("does not exist")
    found = rows(page)
    (wrong,) = (name for name in found if name.startswith("Wrong"))
    assert set(found) == {wrong, "clicks", "far_away", "mistaken", "moved", "orders", "payments", "unborn", "visits"}
    assert set(found[:6]) == {wrong, "mistaken", "moved", "orders", "payments", "unborn"}
    expect(page.locator("tbody", has_text="payments")).to_contain_text("1 stopped partition")
    expect(page.locator("tbody", has_text="orders")).to_contain_text("1 failed batch")


def test_a_broker_that_is_away_looks_different_from_one_without_lag(open_as):
    page = open_as("viewer")
    settled(page)
    expect(page.locator("tbody", has_text="far_away").locator("td.unreachable")).to_have_text("Kafka does not answer")
    expect(page.locator("tbody", has_text="clicks").locator("td.lag").first).to_have_text("30")


def test_the_map_shows_each_condition_of_offsets(open_as, site):
    page = open_as("viewer", PLACES["pipeline"])
    settled(page)
    first = page.locator("#partitions .line", has_text="clicks/0")
    kinds = {
        kind.split()[-1]
        for kind in first.locator("rect").evaluate_all("all => all.map(one => one.getAttribute('class'))")
    }
    assert kinds == {"rejected", "loaded", "skipped", "unread"}
    expect(first.locator("svg")).to_have_attribute("aria-label", re.compile(r"clicks/0, offsets 0 to 140: .*3 skipped"))


def test_a_person_zooms_from_the_map_to_a_batch(open_as):
    page = open_as("viewer", PLACES["pipeline"])
    page.locator("#partitions .line a", has_text="clicks/0").click()
    expect(page.get_by_role("heading", name="clicks/0")).to_be_visible()
    page.locator(".zoom a", has_text="skipped").first.click()
    expect(page.locator("main > table")).to_contain_text("skipped")
    page.go_back()
    page.locator("main > table a").first.click()
    expect(page.get_by_role("heading", name="Batch ")).to_be_visible()
    expect(page.locator("main")).to_contain_text("publish")


def test_a_batch_of_a_state_shows_what_it_has_folded(open_as, site):
    ((batch_id,),) = site.rows("SELECT min(batch_id) FROM tideline.batch WHERE pipeline = 'visits'")
    page = open_as("viewer", f"/tideline/pipelines/visits/batches/{batch_id}")
    expect(page.locator("dl.facts")).to_contain_text("2 keys have changed")


def test_a_link_in_the_frame_opens_the_run_in_airflow(open_as):
    page = open_as("admin", "/plugin/tideline")
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name="clicks", exact=True).click()
    frame.locator("#batches table a").last.click()
    frame.get_by_role("link", name=re.compile("^run manual")).click()
    page.wait_for_url(re.compile("/dags/clicks/runs/manual__first"))


def test_the_frame_follows_airflows_theme(open_as):
    page = open_as("viewer", "/plugin/tideline")
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Pipelines")).to_be_visible()  # Airflow sets its own theme before
    inner = frame.locator("html")
    for theme, other in (("dark", "light"), ("light", "dark")):
        page.evaluate(
            f"document.documentElement.classList.remove('{other}'); document.documentElement.classList.add('{theme}')"
        )
        expect(inner).to_have_attribute("data-theme", theme)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_assistance_finds_nothing_serious(open_as, width, theme):
    found = {}
    for name, path in PLACES.items():
        page = open_as("admin", path, viewport={"width": WIDTHS[width], "height": 900}, color_scheme=theme)
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width], name
        page.evaluate(chromium.axe())
        violations = page.evaluate("axe.run()")["violations"]
        serious = [one for one in violations if one["impact"] in ("serious", "critical")]
        if serious:
            found[name] = [(one["id"], [node["html"][:150] for node in one["nodes"][:3]]) for one in serious]
    assert found == {}, json.dumps(found, indent=1)


def test_everything_is_reached_by_keyboard(open_as):
    page = open_as("admin", PLACES["pipeline"])
    settled(page)
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim().split('\\n')[0]"))
    assert {"Skip to the content", "Replay", "clicks/0", "clicks/2", "Run the checks of tideline doctor"} <= reached


def test_an_airflow_that_is_away_is_said_on_the_page_that_is_open(open_as):
    page = open_as("viewer")
    settled(page)
    expect(page.locator("#away")).to_be_hidden()
    page.context.set_offline(True)
    page.evaluate("htmx.trigger('#overview', 'answered')")
    expect(page.locator("#away")).to_be_visible()
    page.context.set_offline(False)
    page.evaluate("htmx.trigger('#overview', 'answered')")
    expect(page.locator("#away")).to_be_hidden()


def test_checks_of_doctor_run_on_request(open_as):
    page = open_as("op", PLACES["pipeline"])
    page.get_by_role("button", name="Run the checks").click()
    expect(page.locator("#checks table")).to_contain_text("declaration")
