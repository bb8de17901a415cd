"""A day of events, loaded in some batches, gives the sessions that pandas finds in the whole day.

TIDELINE_TEST_EVENTS=200000 loads so many events, hour by hour.
"""

import os
from datetime import datetime
from decimal import Decimal

import pytest

import records
from loads import day_of_events
from loads.day_of_events import HOURS, PARTITIONS, Day

WANTED = os.environ.get("TIDELINE_TEST_EVENTS")
N_EVENTS, N_BATCHES = (int(WANTED), HOURS) if WANTED else (10_000, 5)


@pytest.fixture
def day(loading):
    """Load a day."""
    found = Day.drawn(26, N_EVENTS, N_BATCHES)
    topic = records.create(loading.bootstrap, partitions=PARTITIONS)
    loading.declare(
        topic,
        columns=day_of_events.SOURCE,
        transform=day_of_events.TRANSFORM,
        target=day_of_events.TARGET,
        state=day_of_events.STATE,
        fail_above=1.0,
    )
    for batch in range(N_BATCHES):
        for partition, values in found.arriving(batch):
            records.produce(loading.bootstrap, topic, values, first_partition=partition)
        loading.run()
    return found


def test_sessions_of_a_day_with_late_and_unordered_events_are_those_of_pandas(loading, day):
    closed, still_open = day.sessions()
    rejected = day.events[day.rejected()]
    print(
        f"{N_EVENTS} events in {N_BATCHES} batches: {len(closed)} sessions, {len(still_open)} open, {len(rejected)} rejects"
    )
    assert len(closed) > N_EVENTS // 20
    assert len(still_open) > 10
    rows = loading.rows("SELECT user_id, first, last, clicks, revenue FROM ads.output")
    assert sorted(rows) == sorted(_row(one) for one in closed.itertuples())
    states = loading.rows("SELECT key::json ->> 0, value FROM tideline.state")
    kept = [
        (user, *map(_moment, (value["first"], value["last"])), value["clicks"], Decimal(value["revenue"]))
        for user, value in states
    ]
    assert sorted(kept) == sorted(_row(one) for one in still_open.itertuples())
    assert len(rejected) > N_EVENTS // 250
    assert set(loading.rejects()) == set(zip(rejected["partition"], rejected["offset"], strict=True))


def _row(one):
    user, cents = f"u{one.user}", Decimal(int(one.cents)) / 100
    return user, one.first.to_pydatetime(), one.last.to_pydatetime(), one.clicks, cents


def _moment(text):
    return datetime.fromisoformat(text)
