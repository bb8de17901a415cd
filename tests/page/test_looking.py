"""What a person sees in Chromium: in Airflow's frame, in light and dark, on a desk and on a telephone, and with assistance."""

import re
from itertools import product

import pytest
from playwright.sync_api import expect

from given_ledger import ledgers
from page_reading import of_pipeline, pipelines, serious, settled
from tideline import flow
from tideline.ledger.connection import Ledger

WIDTHS = {"desk": 1280, "telephone": 390}
PLACES = {
    "overview": "/tideline/",
    "pipeline": "/tideline/pipelines/clicks",
    "stopped": "/tideline/pipelines/payments",
    "unreachable": "/tideline/pipelines/far_away",
    "partition": "/tideline/pipelines/clicks/partitions/1",
    "batch": "/tideline/pipelines/clicks/batches/1",
    "rejects": "/tideline/pipelines/clicks/rejects",
    "decision": "/tideline/pipelines/clicks/decisions/replay?batch=1",
    "run": "/tideline/runs/clicks/manual__first",
    "unknown": "/tideline/pipelines/nothing",
}


def test_the_overview_opens_in_airflows_navigation(open_as):
    page = open_as("viewer", "/plugin/tideline")
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Pipelines")).to_be_visible()
    expect(frame.get_by_role("link", name="clicks", exact=True)).to_be_visible()


def test_the_pipeline_that_needs_a_person_is_first(open_as):
    page = open_as("viewer")
    settled(page)
    expect(page.locator("tbody", has_text="unborn")).to_contain_text("does not exist")
    found = pipelines(page)
    broken = {name for name in found if name.startswith("Wrong")} | {"mistaken"}
    # Deleted records, stopped partitions, mistakes; then a failed batch, a broker that is away, what waits for its topic, and what is fine.
    assert found[:3] == ["payments", "grown", "moved"]
    assert set(found[3:5]) == broken
    assert found[5:] == ["orders", "far_away", "unborn", "clicks", "visits"]
    for level, names in (("act", found[:5]), ("look", found[5:7]), ("fine", found[7:])):
        for name in names:
            expect(of_pipeline(page, name)).to_have_class(f"level-{level}")
    expect(of_pipeline(page, "payments").locator(".needs li").first).to_contain_text("were not read are deleted")
    expect(page.locator("tbody", has_text="payments")).to_contain_text("1 stopped partition")
    expect(page.locator("tbody", has_text="orders")).to_contain_text("1 failed batch")


def test_a_broker_that_is_away_looks_different_from_one_without_lag(open_as):
    page = open_as("viewer")
    settled(page)
    expect(page.locator("tbody", has_text="far_away").locator("td.unreachable")).to_have_text("Kafka does not answer")
    expect(page.locator("tbody", has_text="clicks").locator("td.lag").first).to_have_text("30")


def test_the_overview_is_searched_and_filtered_by_its_address(open_as):
    for address, expected in (
        ("?q=CLI", ["clicks"]),
        ("?state=stopped+streams", ["payments", "grown", "moved"]),
        ("?tag=money", ["payments"]),
        ("?q=o&state=failed+batches", ["orders"]),
        ("?q=nothing+like+it", []),
    ):
        page = open_as("viewer", f"/tideline/{address}")
        settled(page)
        assert sorted(pipelines(page)) == sorted(expected), address
    expect(page.locator(".nothing")).to_contain_text("fits")
    page.get_by_label("Search").fill("visits")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url(re.compile(r"\?q=visits"))
    settled(page)
    assert pipelines(page) == ["visits"]
    page.get_by_label("State").select_option("needs a person")
    page.get_by_label("Search").fill("")
    page.get_by_role("button", name="Show", exact=True).click()
    settled(page)
    assert "payments" in pipelines(page)
    assert "clicks" not in pipelines(page)
    page.evaluate("htmx.trigger('#overview', 'answered')")  # what is fetched again is filtered as well
    settled(page)
    assert "clicks" not in pipelines(page)
    assert serious(page) == []


def test_a_pipeline_that_was_given_up_is_out_of_sight_once_it_is_retired(open_as, site):
    command = "tideline retire given_up --reason"
    with Ledger(site.ledger_url, actor="test") as session:
        ledgers.start_streams(session, 1, pipeline="given_up")
        page = open_as("viewer")
        settled(page)
        expect(of_pipeline(page, "given_up").locator(".needs li")).to_contain_text(command)
        before = page.locator(".summary").inner_text()
        flow.retire(session, "given_up", reason="replaced by clicks")
    page = open_as("viewer")
    settled(page)
    assert "given_up" not in pipelines(page)
    assert page.locator(".summary").inner_text() != before
    page.get_by_role("link", name="Show it").click()
    page.wait_for_url(re.compile(r"\?state=retired"))
    settled(page)
    assert pipelines(page) == ["given_up"]
    expect(of_pipeline(page, "given_up").locator(".state")).to_have_text("retired")
    expect(page.locator(".summary")).to_contain_text("needs no person")
    assert serious(page) == []
    page = open_as("viewer", "/tideline/pipelines/given_up")
    settled(page)
    expect(page.locator("#partitions")).to_contain_text("No folder declares this pipeline.")
    expect(page.locator("#decisions")).to_contain_text("replaced by clicks")
    expect(page.locator("main")).not_to_contain_text(command)


def test_a_problem_of_an_attempt_leads_to_the_runbook(open_as, site):
    ((batch_id,),) = site.rows("SELECT batch_id FROM tideline.batch WHERE pipeline = 'orders' AND state = 'failed'")
    page = open_as("viewer", f"/tideline/pipelines/orders/batches/{batch_id}")
    problem = page.locator("td.problem")
    expect(problem).to_contain_text("the disk is full")
    expect(problem).not_to_contain_text("\\n")
    problem.get_by_role("link").click()
    expect(page.locator("#stream-stopped")).to_be_visible()
    assert serious(page) == []


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


def test_a_batch_shows_the_schemas_that_its_records_name(open_as):
    page = open_as("viewer", PLACES["batch"])
    row = page.get_by_role("region", name="Schemas").locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("AVRO")
    expect(row).to_contain_text("clicks-value")
    assert serious(page) == []


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


@pytest.mark.parametrize("place", PLACES)
def test_assistance_finds_nothing_serious(open_as, place):
    page = open_as("admin", PLACES[place])
    found = {}
    for width, theme in product(WIDTHS, ("light", "dark")):
        page.set_viewport_size({"width": WIDTHS[width], "height": 900})
        page.emulate_media(color_scheme=theme)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width], width
        if violations := serious(page):
            found[width, theme] = violations
    assert found == {}


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
    assert serious(page) == []


def test_those_who_may_not_act_are_offered_no_act(open_as):
    for pipeline in ("payments", "grown", "moved"):
        offered = {}
        for role in ("viewer", "op"):
            page = open_as(role, f"/tideline/pipelines/{pipeline}")
            settled(page)
            expect(page.locator("#partitions .why")).to_contain_text("stopped:")
            offered[role] = page.locator("nav.decisions, a[href*='/decisions/']").count()
        assert offered["viewer"] == 0
        assert offered["op"] > 2
