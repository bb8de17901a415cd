"""Each act, from click to history: the dry run changes nothing, and what is done stands under the person's name with the reason."""

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

import conditions
import website
from hostile import HOSTILE

WHY = f"ticket 7 {HOSTILE}"


@pytest.fixture(scope="module")
def site(tmp_path_factory, postgres, broker):
    """Start a page of its own, because acts change what the other tests look at."""
    folder = tmp_path_factory.mktemp("acts")
    with website.running(folder, postgres, broker, name="acts", prefix="acts_", fill=conditions.declare_all) as running:
        yield running


def history(site, pipeline, actor="op"):
    """Return the person's actions on a pipeline, each with its reason, in order."""
    return site.rows(
        "SELECT action, coalesce(e.detail ->> 'reason', b.reason) FROM tideline.event e LEFT JOIN tideline.batch b USING (batch_id)"
        " WHERE e.pipeline = %s AND actor = %s ORDER BY event_id",
        pipeline,
        actor,
    )


def act(open_as, site, path, *, fields=None, name, shows):
    """Show the dry run of an act, check that it changed nothing, then carry it out; return the page."""
    page = open_as("op", path)
    for label, value in (fields or {}).items():
        page.get_by_label(label).fill(value)
    before = site.everything()
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_role("heading", name="This is what it would do")).to_be_visible()
    expect(page.locator("#outcome .lines")).to_contain_text(shows)
    assert site.everything() == before
    page.get_by_label("Reason it is stored").fill(WHY)
    page.get_by_role("button", name=name, exact=True).click()
    expect(page.get_by_role("heading", name="Done")).to_be_visible()
    assert page.title() != "taken"
    return page


def of(pipeline, verb, **given):
    return f"/tideline/pipelines/{pipeline}/acts/{verb}?{urlencode(given)}"


def newest(site, pipeline):
    return site.rows(
        "SELECT batch_id, kind::text, state::text, reason FROM tideline.batch WHERE pipeline = %s ORDER BY batch_id DESC LIMIT 1", pipeline
    )[0]  # fmt: skip


def test_a_replay_is_reserved_and_its_run_is_started_by_the_person(open_as, site):
    page = act(open_as, site, of("clicks", "replay", batch=2), name="Replay", shows="acts_clicks/1 [100, 130)")
    batch_id, kind, _, reason = newest(site, "clicks")
    assert (kind, reason) == ("replay", WHY)
    assert ("plan", WHY) in history(site, "clicks")
    link = page.get_by_role("link", name=re.compile("^run manual"))
    expect(link).to_be_visible()
    expect(page.locator("[data-start-run]")).to_contain_text("the DAG is paused")
    with site.client("admin") as client:
        runs = client.get("/api/v2/dags/clicks/dagRuns").json()["dag_runs"]
    assert [(run["conf"]["batch_id"], run["triggering_user_name"]) for run in runs] == [(batch_id, "op")]


def test_rejects_are_driven_again(open_as, site):
    act(open_as, site, of("clicks", "redrive", reject_reason="not JSON"), name="Re-drive rejects", shows="redrive")
    assert newest(site, "clicks")[1] == "redrive"
    assert ("plan", WHY) in history(site, "clicks")


def test_a_range_is_skipped(open_as, site):
    act(
        open_as,
        site,
        of("clicks", "skip"),
        fields={"Range": "acts_clicks/2 [131, 133)"},
        name="Skip offsets",
        shows="would be skipped",
    )
    assert site.rows(
        "SELECT lower(offsets), upper(offsets), decided_by, reason FROM tideline.coverage WHERE hole = 'skipped' AND decided_by = 'op'"
    ) == [(131, 133, "op", WHY)]


def test_a_failed_batch_is_retried_and_then_abandoned(open_as, site):
    (batch_id, _, state, _) = newest(site, "orders")
    assert state == "failed"
    page = act(open_as, site, of("orders", "retry", batch=batch_id), name="Retry a batch", shows="would be started")
    expect(page.get_by_role("link", name=re.compile("^run manual"))).to_be_visible()
    act(open_as, site, of("orders", "abandon", batch=batch_id), name="Abandon a batch", shows="would be abandoned")
    assert newest(site, "orders")[2] == "abandoned"
    assert history(site, "orders") == [("retry", WHY), ("abandon", WHY)]


def test_a_loss_is_accepted(open_as, site):
    act(
        open_as,
        site,
        of("payments", "accept-loss", topic="acts_payments/0"),
        name="Accept a loss",
        shows="recorded as lost",
    )
    assert site.rows("SELECT state::text FROM tideline.stream WHERE pipeline = 'payments'") == [("active",)]
    assert WHY in {reason for _, reason in history(site, "payments")}


def test_a_topic_that_was_created_again_is_adopted(open_as, site):
    act(open_as, site, of("moved", "adopt-topic", topic="acts_moved"), name="Adopt a topic", shows="retired at 10")
    assert sorted(site.rows("SELECT state::text FROM tideline.stream WHERE pipeline = 'moved'")) == [
        ("active",),
        ("retired",),
    ]
    assert WHY in {reason for _, reason in history(site, "moved")}


def test_a_pipeline_with_a_state_is_rewound(open_as, site):
    ((first,),) = site.rows("SELECT min(batch_id) FROM tideline.batch WHERE pipeline = 'visits'")
    act(
        open_as,
        site,
        of("visits", "rewind"),
        fields={"To the end of batch": str(first)},
        name="Rewind",
        shows="would be undone",
    )
    assert site.rows("SELECT value ->> 'clicks' FROM tideline.state WHERE pipeline = 'visits' ORDER BY key") == [
        ("3",),
        ("4",),
    ]
    assert site.rows("SELECT to_batch, reason, decided_by FROM tideline.rewind WHERE pipeline = 'visits'") == [
        (first, WHY, "op")
    ]


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
        answer = client.post("/tideline/pipelines/clicks/acts/abandon", data=form, headers={"X-Tideline": "page"})
    assert f"has no batch {of_orders}" in answer.text


def test_those_who_may_not_act_see_no_acts(open_as):
    page = open_as("viewer", "/tideline/pipelines/clicks")
    expect(page.get_by_role("heading", name="Coverage")).to_be_visible()
    assert page.locator("nav.acts").count() == 0
