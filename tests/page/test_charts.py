"""The charts say what was read and what was left to read, until now, and in UTC."""

import json
import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect


@pytest.fixture
def opened(open_as):
    """Return a function that opens the page of a pipeline, and waits until its charts have the answer of Kafka."""

    def opened_as(**options):
        page = open_as("viewer", "/tideline/pipelines/clicks", **options)
        expect(page.locator("#throughput")).to_contain_text("left in Kafka, as of", timeout=120_000)
        return page

    return opened_as


def test_charts_end_with_the_lag_of_now(opened):
    page = opened()
    points = json.loads(page.locator("#throughput .charts").get_attribute("data-points"))
    assert points["left"][-1] == 30
    assert points["per_second"][-1] is None
    expect(page.locator("#throughput .note")).to_contain_text("30 records are left in Kafka, as of 2")


def test_the_axis_of_time_is_in_utc_where_the_person_lives_elsewhere(opened):
    page = opened(timezone_id="Asia/Kolkata")
    drawn = page.evaluate("""async () => {
        const said = [], original = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...more) { said.push(text); original.call(this, text, ...more); };
        dispatchEvent(new Event("resize"));
        await new Promise(requestAnimationFrame);
        await new Promise(requestAnimationFrame);
        return said;
    }""")
    at = json.loads(page.locator("#throughput .charts").get_attribute("data-points"))["at"]
    moments = [datetime.fromtimestamp(second, UTC) for second in range(int(at[0]) - 1, int(at[-1]) + 2)]
    known = {f"{moment:{form}}" for moment in moments for form in ("%H:%M", "%H:%M:%S", "%Y-%m-%d")}
    times = [text for text in drawn if re.match(r"\d\d:\d\d|\d{4}-", text)]
    assert times
    assert set(times) <= known
