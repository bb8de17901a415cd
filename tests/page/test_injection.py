"""Text that comes from records, from people, from folders and from addresses is shown as text, wherever it is shown."""

import re
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Page, expect

from doors import HEADER
from hostile import CONTROL, HOSTILE, HOSTILE_FOLDER, HOSTILE_RUN

QUOTED = quote(HOSTILE + CONTROL, safe="")
SEGMENT = quote((HOSTILE + CONTROL).replace("/", "").replace("\r\n", ""), safe="")
"""As one segment of a path: Airflow itself finds no address with a line break, and reads `%2F` as a slash."""
PLACES = {
    "overview": "",
    "description": "pipelines/orders",
    "problem of an attempt": "pipelines/orders/batches/{failed}",
    "reason of rejects": "pipelines/clicks",
    "record": "pipelines/clicks/rejects",
    "filter": f"pipelines/clicks/rejects?reason={QUOTED}",
    "reason of a person, and the name": "pipelines/clicks/partitions/{skipped}?start=130&end=140",
    "run id": "pipelines/payments/batches/{run}",
    "address of a run": f"runs/payments/{quote(HOSTILE_RUN, safe='')}",
    "address of a DAG": f"runs/{SEGMENT}/x",
    "name of a folder": f"pipelines/{quote(HOSTILE_FOLDER, safe='')}",
    "name of no pipeline": f"pipelines/{SEGMENT}",
    "act that is filled in": f"pipelines/clicks/decisions/redrive?{urlencode({'reject_reason': HOSTILE + CONTROL})}",
    "no act": f"pipelines/clicks/decisions/{SEGMENT}",
    "filter that is no number": f"pipelines/clicks/rejects?batch={QUOTED}",
}
STRANGE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028\u202e]")


def place(site, path: str) -> str:
    ((failed, skipped, run),) = site.rows(
        "SELECT (SELECT max(batch_id) FROM tideline.batch WHERE pipeline = 'orders'),"
        " (SELECT min(stream_id) FROM tideline.stream WHERE pipeline = 'clicks'),"
        " (SELECT min(batch_id) FROM tideline.batch WHERE pipeline = 'payments')"
    )
    for name, value in {"{failed}": failed, "{skipped}": skipped, "{run}": run}.items():
        path = path.replace(name, str(value))
    return f"/tideline/{path}"


def check(page: Page) -> None:
    """Check that no text has become a part of the page. `open_as` fails for what the browser has refused to run."""
    expect(page.locator(".part .loading")).to_have_count(0, timeout=120_000)
    expect(page.locator("main h1").first).to_be_visible()
    assert page.title() != "taken"
    assert page.locator("main img, main script, main iframe, main object, main base").count() == 0
    handlers = "all => all.flatMap(one => one.getAttributeNames()).filter(name => name.startsWith('on'))"
    assert page.locator("*").evaluate_all(handlers) == []
    assert page.locator("script").evaluate_all("all => all.filter(one => !one.src || one.textContent).length") == 0
    links = page.locator("a, form").evaluate_all("all => all.map(one => one.href || one.action)")
    assert [link for link in links if link and not link.startswith(page.evaluate("location.origin") + "/")] == []
    text = page.locator("body").inner_text()
    assert STRANGE.search(text) is None
    assert not any(line.strip() == "batch 99: published" for line in text.splitlines())
    assert "$49" not in text


@pytest.mark.parametrize("name", PLACES)
def test_hostile_text_is_shown_as_text(open_as, site, name):
    page = open_as("admin", place(site, PLACES[name]))
    check(page)
    if name in ("description", "problem of an attempt", "reason of rejects", "record", "run id", "address of a run"):
        expect(page.locator("main")).to_contain_text(HOSTILE)


def test_hostile_text_of_a_form_is_shown_as_text(open_as, site):
    page = open_as("admin", place(site, PLACES["act that is filled in"]))
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_role("heading", name="This is what it would do")).to_be_visible()
    check(page)
    assert page.locator("#outcome input[name=reject_reason]").input_value().startswith(HOSTILE)
    page.goto(place(site, f"pipelines/clicks/decisions/skip?{urlencode({'range': HOSTILE + CONTROL})}"))
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.locator("#outcome [role=alert]")).to_contain_text("expected a range like")
    check(page)


def test_a_link_to_a_run_of_any_name_stays_in_airflow(open_as, site):
    page = open_as("admin", place(site, PLACES["run id"]))
    address = page.get_by_role("link", name=re.compile("^run javascript")).get_attribute("href")
    assert address == f"/dags/payments/runs/{quote(HOSTILE_RUN, safe='')}"


def test_no_text_of_an_address_becomes_a_header(site):
    with site.client("admin") as client:
        for path in ("pipelines/a%0d%0aX-Forged:%20yes", "runs/clicks/%0d%0aX-Forged:%20yes", "%0d%0aX-Forged:%20yes/"):
            answer = client.get(f"/tideline/{path}", headers=HEADER)
            assert "x-forged" not in answer.headers
            assert "location" not in answer.headers


def test_airflow_shows_a_description_as_text(open_as, site):
    site.await_dag("orders")
    page = open_as("admin", "/dags/orders")
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    page.get_by_role("button", name="Trigger").first.click()
    expect(page.get_by_role("combobox", name="What to load")).to_be_visible()
    assert page.title() != "taken"
    assert page.locator("img[src=x]").count() == 0
