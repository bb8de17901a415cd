"""What the processor flags, and what not: folded in memory, with a baseline of the test."""

import runpy
from datetime import UTC, datetime, timedelta
from math import exp, lgamma, log
from pathlib import Path

import pytest

from tideline.testing import run, trial

FOLDER = Path(__file__).parent
RATE = runpy.run_path(str(FOLDER / "transform.py"))["Rate"]
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
BASELINE = [
    {"version": 7, "offer_id": 1, "impressions": 50_000, "conversions": 2_500},
    {"version": 7, "offer_id": 2, "impressions": 50_000, "conversions": 0},
    {"version": 7, "offer_id": 3, "impressions": 50_000, "conversions": 2_500},
]


def events(offer_id, impressions, conversions, *, begin=NOON, minutes=59):
    """Return events of one offer, evenly over some minutes."""
    kinds = ["conversion"] * conversions + ["impression"] * impressions
    step = timedelta(minutes=minutes) / max(1, len(kinds))
    return [{"kind": kind, "offer_id": offer_id, "happened_at": begin + n * step} for n, kind in enumerate(kinds)]


def later(offer_id, hours=1):
    """Return an event that ends the windows before it."""
    return events(offer_id, 1, 0, begin=NOON + timedelta(hours=hours))


def flagged(given, *, tables=BASELINE, cuts=()):
    return [(row["offer_id"], row["flag"]) for row in run(FOLDER, given, tables={"baseline": tables}, cuts=cuts)]


def test_an_offer_that_is_shown_and_converts_no_more_is_flagged_with_what_was_expected():
    [row] = run(FOLDER, [*events(1, 600, 0), *later(1)], tables={"baseline": BASELINE})
    assert (row["flag"], row["seen"], row["impressions"], row["model_version"]) == ("too few", 0, 600, 7)
    assert row["expected"] == pytest.approx(30, abs=0.3)
    assert row["score"] > 10
    assert (row["begins_at"], row["ends_at"]) == (NOON, NOON + timedelta(hours=1))


def test_an_offer_that_converts_far_more_than_expected_is_flagged():
    assert flagged([*events(1, 600, 90), *later(1)]) == [(1, "too many")]


@pytest.mark.parametrize("conversions", [18, 30, 45])
def test_what_chance_explains_is_not_flagged(conversions):
    assert flagged([*events(1, 600, conversions), *later(1)]) == []


def test_an_offer_that_is_not_shown_is_not_flagged():
    assert flagged([*events(1, 600, 30), *events(3, 1, 0, begin=NOON + timedelta(hours=9))]) == []


def test_an_offer_that_never_converts_is_flagged_only_when_it_does():
    assert flagged([*events(2, 600, 0), *later(2, hours=25)]) == []
    assert flagged([*events(2, 600, 30), *later(2)]) == [(2, "too many")]


def test_a_new_offer_is_judged_by_the_rate_of_all():
    assert flagged([*events(99, 600, 20), *later(99)]) == []
    assert flagged([*events(99, 600, 200), *later(99)]) == [(99, "too many")]
    assert flagged([*events(99, 2_000, 0), *later(99)]) == [(99, "too few")]


def test_few_impressions_wait_for_more_and_then_tell():
    hours = [one for n in range(3) for one in events(1, 150, 0, begin=NOON + timedelta(hours=n))]
    [row] = run(FOLDER, [*hours, *later(1, hours=3)], tables={"baseline": BASELINE}, cuts=[150, 299, 301])
    assert (row["begins_at"], row["ends_at"]) == (NOON, NOON + timedelta(hours=2))
    assert (row["flag"], row["seen"], row["impressions"]) == ("too few", 0, 300)


def test_a_window_that_cannot_tell_ends_after_a_day():
    found = run(FOLDER, [*events(1, 5, 0), *later(3, hours=26)], tables={"baseline": BASELINE})
    assert [state.key for state in found.states] == [3]
    assert found == []


def test_conversions_without_an_impression_do_not_fail_the_batch():
    assert flagged([*events(1, 0, 1), *later(1, hours=30)]) == []
    assert flagged([*events(1, 0, 12), *later(1)]) == [(1, "too many")]


def test_without_a_baseline_nothing_is_flagged():
    assert flagged([*events(1, 600, 0), *later(1)], tables=[]) == []


def test_any_cuts_into_batches_give_the_same_rows():
    given = [*events(1, 600, 0), *later(1), *events(1, 600, 0, begin=NOON + timedelta(hours=2)), *later(1, hours=4)]
    whole = run(FOLDER, given, tables={"baseline": BASELINE})
    assert len(whole) == 2
    assert run(FOLDER, given, tables={"baseline": BASELINE}, cuts=range(0, len(given), 97)) == whole


def test_an_event_of_another_kind_is_a_reject():
    found = trial(
        FOLDER,
        [b'{"kind": "click", "offer_id": 1, "happened_at": "2026-11-01T12:00:00Z"}'],
        tables={"baseline": BASELINE},
    )
    assert [one.reason for one in found.rejects] == ["ValueError: kind: expected impression or conversion, found click"]


@pytest.mark.parametrize(
    ("conversions", "impressions", "seen", "shown"),
    [(50.5, 1_000, 2, 600), (0.5, 1_000, 3, 600), (149.5, 1_500, 60, 300), (10, 100, 30, 400), (2_600, 51_000, 0, 700)],
)
def test_the_score_is_that_of_the_tail_added_term_by_term(conversions, impressions, seen, shown):
    rate, odds = RATE(conversions, impressions), shown / (shown + impressions)

    def probability(n):
        ways = lgamma(n + conversions) - lgamma(conversions) - lgamma(n + 1)
        return exp(ways + conversions * log(1 - odds) + n * log(odds))

    tail = range(seen + 1) if seen < rate.expected(shown) else range(seen, 5_000)
    assert rate.score(seen, shown) == pytest.approx(-log(sum(map(probability, tail))) / log(10), rel=1e-6)


def test_with_much_known_the_score_is_that_of_a_poisson_distribution():
    expected = 30.0
    rate = RATE(expected * 1e6, 600e6)
    tail = sum(exp(n * log(expected) - expected - lgamma(n + 1)) for n in range(9))
    assert rate.score(8, 600) == pytest.approx(-log(tail) / log(10), rel=1e-3)


@pytest.mark.parametrize(("seen", "shown"), [(0, 10_000_000), (10_000_000, 10_000_000), (600_000, 1)])
def test_no_number_of_events_is_too_large_for_a_score(seen, shown):
    assert 6 < RATE(2_500, 50_000).score(seen, shown) < float("inf")
