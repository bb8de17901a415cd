"""The coverage map tells what is amiss by shapes and words, and not by colours alone."""

import re

import pytest
from playwright.sync_api import expect

PIPELINE = "/tideline/pipelines/clicks"
COLORS = ("loaded", "rejected", "open", "unread", "skipped", "lost", "rewound", "missing")


@pytest.fixture
def opened(open_as):
    """Return a function that opens the page of a pipeline, and waits until Kafka has answered."""

    def opened_as(**options):
        page = open_as("viewer", PIPELINE, **options)
        expect(page.locator(".loading")).to_have_count(0, timeout=120_000)
        return page

    return opened_as


def test_the_map_shows_each_condition_of_offsets(opened):
    first = opened().locator("#partitions .line", has_text="clicks/0")
    kinds = {
        kind.split()[-1]
        for kind in first.locator("path").evaluate_all("all => all.map(one => one.getAttribute('class'))")
    }
    assert kinds == {"rejected", "loaded", "skipped", "unread"}
    expect(first.locator("svg")).to_have_attribute("aria-label", re.compile(r"clicks/0, offsets 0 to 140: .*3 skipped"))


def test_a_bar_says_in_words_what_is_amiss(opened):
    page = opened()
    expect(page.locator("#partitions .line", has_text="clicks/0").locator(".amiss")).to_have_text(
        "3 skipped, 20 rejected"
    )
    expect(page.locator("#partitions .line", has_text="clicks/1").locator(".amiss")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_cells_can_be_told_apart_where_all_colours_are_one(opened, theme):
    page = opened(color_scheme=theme)
    page.evaluate(
        "names => names.forEach(name => document.documentElement.style.setProperty(`--${name}`, '#808080'))", COLORS
    )
    looks = {}
    for swatch in page.locator(".swatch").all():
        # Each at the same place and of the same size, so that equal shapes are equal pictures.
        swatch.evaluate(
            "one => Object.assign(one.style, {position: 'fixed', zIndex: 9, left: 0, top: 0, width: '40px', height: '40px', margin: 0})"
        )
        path = swatch.locator("path")
        name = f"{path.get_attribute('class')} {path.get_attribute('data-shade')}"
        looks[name] = page.screenshot(clip={"x": 0, "y": 0, "width": 40, "height": 40})
        swatch.evaluate("one => { one.style.display = 'none'; }")
    assert len(looks) == len(COLORS) + 3  # empty, and two more shades of rejects
    assert len(set(looks.values())) == len(looks)
