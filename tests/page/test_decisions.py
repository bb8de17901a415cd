"""Each act, from click to history: the dry run changes nothing, and what is done stands under the person's name with the reason."""

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

import conditions
import website
from hostile import HOSTILE
from page_reading import serious, settled

WHY = f"ticket 7 {HOSTILE}"


@pytest.fixture(scope="module")
def site(tmp_path_factory, postgres, broker):
    """Start a page of its own, because acts change what the other tests look at."""
    folder = tmp_path_factory.mktemp("acts")
    with website.running(folder, postgres, broker, name="acts", prefix="acts_", fill=conditions.declare_all) as running:
        yield running


def act(page, site, *, fields=None, name, shows):
    """Show the dry run of an act whose form is open, check that it changed nothing, then carry it out."""
    for label, value in (fields or {}).items():
        page.get_by_label(label).fill(value)
    before = site.everything()
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_role("heading", name="This is what it would do")).to_be_visible()
    expect(page.locator("#outcome .lines")).to_contain_text(shows)
    assert site.everything() == before
    assert serious(page) == []
    page.get_by_label("Reason it is stored").fill(WHY)
    page.get_by_role("button", name=name, exact=True).click()
    expect(page.get_by_role("heading", name="Done")).to_be_visible()
    assert page.title() != "taken"
    assert serious(page) == []


def in_history(page, part, action, about=""):
    """Read from the page that open the person's act stands in its history, under the name and with the reason."""
    row = page.locator(part).get_by_role("row").filter(has_text=WHY).filter(has_text=about)
    for label, text in (("Action", action), ("Who", "op")):
        row = row.filter(has=page.locator(f"td[data-label='{label}']", has_text=re.compile(f"^{text}$")))
    expect(row.first).to_be_visible()


def decided(page, action, about=""):
    """Go back to the pipeline, and find the decision there."""
    page.get_by_role("link", name="Back to").click()
    in_history(page, "#decisions", action, about)


def of_pipeline(open_as, pipeline):
    return open_as("op", f"/tideline/pipelines/{pipeline}")


def of(pipeline, verb, **given):
    return f"/tideline/pipelines/{pipeline}/decisions/{verb}?{urlencode(given)}"


def newest(site, pipeline):
    return site.rows(
        "SELECT batch_id, kind::text, state::text, reason FROM tideline.batch WHERE pipeline = %s ORDER BY batch_id DESC LIMIT 1", pipeline
    )[0]  # fmt: skip


def is_written_by_a_run(page, site, pipeline, batch_id):
    """Check that the page has started a run for a batch, with the rights of the person."""
    line = page.locator(f"[data-start-run][data-batch='{batch_id}']")
    expect(line.get_by_role("link", name=re.compile("^run manual"))).to_be_visible()
    expect(line).to_contain_text("the DAG is paused")
    with site.client("admin") as client:
        runs = client.get(f"/api/v2/dags/{pipeline}/dagRuns").json()["dag_runs"]
    assert (batch_id, "op") in [(run["conf"]["batch_id"], run["triggering_user_name"]) for run in runs]


def test_a_replay_is_reserved_and_its_run_is_started_by_the_person(open_as, site):
    page = of_pipeline(open_as, "clicks")
    page.locator("#batches").get_by_role("link", name="2", exact=True).click()
    page.wait_for_url(
        re.compile("/batches/2$")
    )  # the page of the pipeline has such a link as well, which names no batch
    page.get_by_role("link", name="Replay", exact=True).click()
    act(page, site, name="Replay", shows="acts_clicks/1 [100, 130)")
    batch_id, kind, _, reason = newest(site, "clicks")
    assert (kind, reason) == ("replay", WHY)
    is_written_by_a_run(page, site, "clicks", batch_id)
    decided(page, "plan", f"batch {batch_id}")
    page.locator("#decisions").get_by_role("link", name=f"batch {batch_id}").first.click()
    expect(page.locator("dl.facts")).to_contain_text(WHY)
    in_history(page, "section:has(#events)", "plan")


def test_rejects_are_driven_again_and_their_run_is_started(open_as, site):
    page = of_pipeline(open_as, "clicks")
    page.locator("#rejects").get_by_role("link", name=re.compile("not JSON")).click()
    page.get_by_label("Reason contains").fill("not JSON")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="Re-drive these").click()
    expect(page.get_by_label("Reason of the rejects contains")).to_have_value("not JSON")
    act(page, site, name="Re-drive rejects", shows="redrive")
    batch_id, kind, *_ = newest(site, "clicks")
    assert kind == "redrive"
    is_written_by_a_run(page, site, "clicks", batch_id)
    decided(page, "plan", f"batch {batch_id}")


def test_what_is_driven_again_is_what_was_shown(open_as):
    page = open_as("op", "/tideline/pipelines/clicks/batches/1")
    page.get_by_role("link", name="Its rejects", exact=True).click()
    page.get_by_label("Reason contains").fill("JSON: unexpected")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("Only those of batch 1.")).to_be_visible()
    page.get_by_role("link", name="Re-drive these").click()
    expect(page.get_by_label("Batch")).to_have_value("1")
    expect(page.get_by_label("Reason of the rejects contains")).to_have_value("JSON: unexpected")


def test_a_range_is_skipped_by_keyboard_alone(open_as, site):
    page = of_pipeline(open_as, "clicks")
    settled(page)
    for name in ("Skip offsets", "Range such as"):
        press_until(page, name)
        page.keyboard.press("Enter") if name == "Skip offsets" else page.keyboard.type("acts_clicks/2 [131, 133)")
        page.wait_for_url(re.compile("/decisions/skip"))
    page.keyboard.press("Enter")
    expect(page.locator("#outcome .lines")).to_contain_text("would be skipped")
    press_until(page, "Reason it is stored")
    page.keyboard.type(WHY)
    press_until(page, "Skip offsets")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Done")).to_be_visible()
    press_until(page, "Back to clicks")
    page.keyboard.press("Enter")
    in_history(page, "#decisions", "skip", "acts_clicks/2 [131, 133)")
    assert site.rows(
        "SELECT lower(offsets), upper(offsets), decided_by, reason FROM tideline.coverage WHERE hole = 'skipped' AND decided_by = 'op'"
    ) == [(131, 133, "op", WHY)]


def press_until(page, name):
    """Press the tab key until what has the focus has this name, or a label that begins with it."""
    for _ in range(60):
        page.keyboard.press("Tab")
        reached = page.evaluate(
            "(document.activeElement.labels?.[0] ?? document.activeElement).innerText.replace(/\\s+/g, ' ').trim()"
        )
        if reached.startswith(name):
            return
    raise AssertionError(f"the tab key does not reach {name}")


def test_a_failed_batch_is_retried_and_then_abandoned(open_as, site):
    (batch_id, _, state, _) = newest(site, "orders")
    assert state == "failed"
    page = of_pipeline(open_as, "orders")
    page.locator("#open").get_by_role("link", name=str(batch_id), exact=True).click()
    page.get_by_role("link", name="Retry", exact=True).click()
    act(page, site, name="Retry a batch", shows="would be started")
    is_written_by_a_run(page, site, "orders", batch_id)
    decided(page, "retry", f"batch {batch_id}")
    page.locator("#open").get_by_role("link", name=str(batch_id), exact=True).click()
    page.get_by_role("link", name="Abandon", exact=True).click()
    act(page, site, name="Abandon a batch", shows="would be abandoned")
    assert newest(site, "orders")[2] == "abandoned"
    decided(page, "abandon", f"batch {batch_id}")
    page.locator("#decisions").get_by_role("link", name=f"batch {batch_id}").first.click()
    for action in ("retry", "abandon"):
        in_history(page, "section:has(#events)", action)


def test_a_loss_is_accepted(open_as, site):
    page = of_pipeline(open_as, "payments")
    page.locator("#partitions").get_by_role("link", name="Accept the loss").click()
    act(page, site, name="Accept a loss", shows="recorded as lost")
    assert site.rows("SELECT state::text FROM tideline.stream WHERE pipeline = 'payments'") == [("active",)]
    decided(page, "accept loss", "acts_payments/0 [40, 55)")
    in_history(page, "#decisions", "resume", "acts_payments/0")


def test_added_partitions_are_accepted(open_as, site):
    page = of_pipeline(open_as, "grown")
    page.locator("#partitions").get_by_role("link", name="Accept the partitions").click()
    act(page, site, name="Accept added partitions", shows="acts_grown/1: goes on at 0")
    states = site.rows("SELECT state::text FROM tideline.stream WHERE pipeline = 'grown'")
    assert states == [("active",), ("active",)]
    decided(page, "resume", "acts_grown/1")


def test_a_topic_that_was_created_again_is_adopted(open_as, site):
    page = of_pipeline(open_as, "moved")
    page.locator("#partitions").get_by_role("link", name="adopt the topic").click()
    act(page, site, name="Adopt a topic", shows="retired at 10")
    assert sorted(site.rows("SELECT state::text FROM tideline.stream WHERE pipeline = 'moved'")) == [
        ("active",),
        ("retired",),
    ]
    decided(page, "retire", "acts_moved/0")
    in_history(page, "#decisions", "start", "acts_moved/0")


def test_a_pipeline_with_a_state_is_rewound(open_as, site):
    ((first,),) = site.rows("SELECT min(batch_id) FROM tideline.batch WHERE pipeline = 'visits'")
    page = of_pipeline(open_as, "visits")
    page.get_by_role("link", name="Rewind", exact=True).click()
    act(page, site, fields={"To the end of batch": str(first)}, name="Rewind", shows="would be undone")
    assert site.rows("SELECT value ->> 'clicks' FROM tideline.state WHERE pipeline = 'visits' ORDER BY key") == [
        ("3",),
        ("4",),
    ]
    assert site.rows("SELECT to_batch, reason, decided_by FROM tideline.rewind WHERE pipeline = 'visits'") == [
        (first, WHY, "op")
    ]
    decided(page, "rewind", f"batch {first}")


def test_more_decisions_are_shown_on_request(site):
    for offset in range(131, 135):
        site.skip("clicks", "clicks", offset, offset + 1, reason=f"the record at {offset}", actor="ada")
    with site.client("viewer") as client:
        shown, more = (client.get(f"/tideline/pipelines/clicks/decisions?limit={limit}").text for limit in (3, 15))
    assert re.findall(r"the record at (\d+)", shown) == ["134", "133", "132"]
    assert "decisions?limit=15" in shown
    assert "the record at 131" in more


@pytest.mark.parametrize(
    ("verb", "given", "says"),
    [
        ("replay", {}, "expected one of --batch"),
        ("replay", {"ranges": "acts_clicks/0"}, "expected a range like"),
        ("skip", {"range": "acts_clicks/0 [0, 5)"}, "is loaded by batch"),
        ("retry", {"batch": "x"}, "expected a number"),
        ("retry", {"batch": "999999"}, "has no batch 999999"),
        ("rewind", {"to_batch": "0"}, "only a pipeline with a state is rewound"),
        ("accept-loss", {"topic": "acts_clicks"}, "is stopped"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_changed(open_as, site, verb, given, says):
    page = open_as("op", of("clicks", verb, **given))
    before = site.everything()
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.locator("#outcome [role=alert]")).to_contain_text(says)
    assert site.everything() == before


def test_a_batch_of_another_pipeline_is_not_touched(site):
    (of_orders, *_) = newest(site, "orders")
    with site.client("op") as client:
        form = {"batch": str(of_orders), "reason": "x"}
        answer = client.post("/tideline/pipelines/clicks/decisions/abandon", data=form, headers={"X-Tideline": "page"})
    assert f"has no batch {of_orders}" in answer.text
