"""Tests of the pipeline sessions: what its author expects of visits, however their events are cut into batches. Run them with pytest."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tideline.testing import run, trial

FOLDER = Path(__file__).parent
SAMPLE = (FOLDER / "sample.jsonl").read_bytes().splitlines()
START = datetime(2026, 11, 21, 10, tzinfo=UTC)
HALF_A_DAY = 12 * 60.0


def event(user: str, minute: float, kind: str = "impression", revenue: str | None = "0.001") -> dict[str, Any]:
    """Return an event, so many minutes after START."""
    at = START + timedelta(minutes=minute)
    return {
        "kind": kind,
        "user_id": user,
        "offer_id": 7,
        "revenue": revenue and Decimal(revenue),
        "happened_at": at,
    }


def minutes(rows: Sequence[dict[str, Any]]) -> list[tuple[str, float, float]]:
    """Return user, begin and end of each visit, in minutes after START."""
    minute = timedelta(minutes=1)
    return [(row["user_id"], (row["first_at"] - START) / minute, (row["last_at"] - START) / minute) for row in rows]


def stream(seed: int, *, most_early: float = 0.0) -> list[dict[str, Any]]:
    """Return the events of ten users for half a day, in order of time; with `most_early` each may come so many minutes before its turn.

    Within a visit they are less than 15 minutes apart, and between visits at least 45.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable test data
    found = []
    for number in range(10):
        minute = chance.uniform(0, 60)
        while minute < HALF_A_DAY:
            kind, revenue = chance.choice(["impression", "click"]), f"0.{chance.randrange(1000):03}"
            found.append(event(f"user {number}", minute, kind, revenue))
            minute += chance.uniform(0, 15) if chance.random() < 0.8 else chance.uniform(45, 120)
    found.sort(key=lambda one: one["happened_at"])
    return sorted(found, key=lambda one: one["happened_at"] - timedelta(minutes=chance.uniform(0, most_early)))


def cuts(seed: int, events: Sequence[Any]) -> list[int]:
    """Return up to 30 places at which batches begin."""
    chance = random.Random(seed)  # noqa: S311 - repeatable test data
    return [chance.randrange(1, len(events)) for _ in range(chance.randrange(30))]


def expected(events: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return all visits of events, closed and open, with their counts: each user's events by time, divided at each pause."""
    visits: list[tuple[Any, ...]] = []
    for user in {one["user_id"] for one in events}:
        own = sorted((one for one in events if one["user_id"] == user), key=lambda one: one["happened_at"])
        begins = [
            number
            for number, one in enumerate(own)
            if number == 0 or one["happened_at"] - own[number - 1]["happened_at"] >= timedelta(minutes=30)
        ]
        for begin, end in zip(begins, [*begins[1:], len(own)], strict=True):
            part = own[begin:end]
            clicks = sum(one["kind"] == "click" for one in part)
            revenue = sum(one["revenue"] for one in part)
            visits.append((user, part[0]["happened_at"], part[-1]["happened_at"], len(part) - clicks, clicks, revenue))
    return sorted(visits)


def found(rows: Any) -> list[tuple[Any, ...]]:
    """Return the visits of a run, closed and open, in the form of `expected`."""
    kept = [{"user_id": one.key, **one.value} for one in rows.states]
    names = ("user_id", "first_at", "last_at", "impressions", "clicks", "revenue")
    return sorted(tuple(row[name] for name in names) for row in [*rows, *kept])


def test_a_visit_becomes_a_row_when_its_user_has_paused_for_half_an_hour() -> None:
    """The next event of the user closes it, or the time of other users."""
    rows = run(FOLDER, [event("ada", 0), event("ada", 29, "click", "0.25"), event("ada", 59), event("bob", 99)])
    assert rows == [
        {
            "user_id": "ada",
            "first_at": START,
            "last_at": START + timedelta(minutes=29),
            "duration_ms": 29 * 60_000,
            "impressions": 1,
            "clicks": 1,
            "revenue": Decimal("0.251000"),
        },
        {
            "user_id": "ada",
            "first_at": START + timedelta(minutes=59),
            "last_at": START + timedelta(minutes=59),
            "duration_ms": 0,
            "impressions": 1,
            "clicks": 0,
            "revenue": Decimal("0.001000"),
        },
    ]
    assert [one.key for one in rows.states] == ["bob"]


@pytest.mark.parametrize("seed", range(20))
def test_visits_are_the_same_however_their_events_are_cut_into_batches(seed: int) -> None:
    """So a visit may last over many batches, and a failed run changes nothing."""
    events = stream(seed)
    assert found(run(FOLDER, events, cuts=cuts(seed, events))) == expected(events)
    assert run(FOLDER, events, cuts=cuts(seed, events)) == run(FOLDER, events)


def test_the_first_batch_after_an_outage_gives_what_many_batches_give() -> None:
    """Events of many hours come at once: nothing of them is late."""
    events = stream(1)
    rows = run(FOLDER, events, cuts=[50, 60])
    assert rows.rejects == []
    assert rows == run(FOLDER, events, cuts=range(0, len(events), 10))


@pytest.mark.parametrize("seed", range(20))
def test_events_of_a_visit_may_come_out_of_order_by_less_than_the_lateness(seed: int) -> None:
    """They still find their visit open, and give the same row."""
    events = stream(seed, most_early=9)
    assert events != stream(seed)
    rows = run(FOLDER, events, cuts=cuts(seed, events))
    assert rows.rejects == []
    assert found(rows) == expected(events)


def test_the_order_of_the_events_of_a_visit_does_not_matter() -> None:
    """Also its beginning is found when it comes last."""
    visit = [event("ada", 0), event("ada", 10, "click"), event("ada", 25)]
    assert {tuple(found(run(FOLDER, order))) for order in permutations(visit)} == {tuple(expected(visit))}


def test_a_late_event_is_a_reject_and_the_others_are_counted() -> None:
    """Late is what is more than ten minutes behind its partition when its batch begins."""
    rows = run(FOLDER, [event("ada", 0), event("bob", 21), event("ada", 10.9), event("ada", 11)], cuts=[2])
    assert [(one.number, one.reason[:4]) for one in rows.rejects] == [(2, "late")]
    assert [(one.key, one.value["impressions"]) for one in rows.states] == [("ada", 2), ("bob", 1)]


def test_an_event_of_a_visit_that_has_ended_is_a_reject() -> None:
    """Within a batch nothing is late, but the visit is not kept any more."""
    rows = run(FOLDER, [event("ada", 0), event("ada", 100), event("ada", 5), event("ada", 71)])
    assert [(one.number, "has ended" in one.reason) for one in rows.rejects] == [(2, True)]
    assert minutes(rows) == [("ada", 0, 0)]
    assert [one.value["impressions"] for one in rows.states] == [2]


def test_an_event_that_comes_after_the_next_visit_has_begun_belongs_to_that() -> None:
    """The order of offsets decides when a visit has ended: 20 would have joined the two, if it had come before 40."""
    rows = run(FOLDER, [event("ada", 0), event("ada", 40), event("ada", 20), event("bob", 100)])
    assert minutes(rows) == [("ada", 0, 0), ("ada", 20, 40)]


def test_a_visit_ends_after_twelve_hours() -> None:
    """A robot that never pauses would have a visit without an end."""
    rows = run(FOLDER, [event("robot", minute) for minute in range(0, 1500, 20)])
    assert minutes(rows) == [("robot", 0, 700), ("robot", 720, 1420)]


@pytest.mark.parametrize("wrong", [{"kind": "scroll"}, {"kind": None}, {"revenue": Decimal("-0.1")}])
def test_what_cannot_be_counted_is_a_reject_and_its_visit_is_as_before(wrong: dict[str, Any]) -> None:
    """If only the table refused it, the whole batch would fail."""
    rows = run(FOLDER, [event("ada", 0), event("ada", 5) | wrong, event("ada", 10, revenue=None)])
    assert [one.number for one in rows.rejects] == [1]
    assert [(one.value["impressions"], one.value["revenue"]) for one in rows.states] == [(2, Decimal("0.001000"))]


@pytest.mark.parametrize("seed", range(20))
def test_every_event_is_counted_once_or_rejected_whatever_its_time(seed: int) -> None:
    """Events come up to two hours before their turn."""
    events = stream(seed, most_early=120)
    rows = run(FOLDER, events, cuts=cuts(seed, events))
    counted = sum(impressions + clicks for *_, impressions, clicks, _ in found(rows))
    assert rows.rejects != []
    assert counted + len(rows.rejects) == len(events)


def test_the_sample() -> None:
    """It holds an event of an unknown kind, and a visit that ends."""
    result = trial(FOLDER, SAMPLE)
    assert [(row["user_id"], row["impressions"], row["clicks"]) for row in result.rows] == [
        ("bob", 1, 0),
        ("ada", 2, 1),
    ]
    assert [(reject.line, reject.step) for reject in result.rejects] == [(5, "transform")]
    assert [one.key for one in result.states or ()] == ["bob"]
