"""A backfill loads only offsets that were never loaded: holes from decisions, and offsets before the start of a stream. It moves no head."""

from datetime import UTC, datetime, timedelta

import pytest

import records
from loads.loading import RENAMING, batches, coverage, names, owners, ranges
from tideline import flow
from tideline.domain.requests import NamedRange, OneBatch, Window
from tideline.errors import RetryableError
from tideline.kafka.broker import Broker

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def hour(number: int) -> Window:
    """Return an hour of the day, counted from noon."""
    return Window(start=NOON + timedelta(hours=number), end=NOON + timedelta(hours=number + 1))


@pytest.fixture
def topic(loading, topic) -> str:
    """Send thirty records, ten in each hour from noon on."""
    for number in range(3):
        moment = round((NOON + timedelta(hours=number, minutes=1)).timestamp() * 1000)
        values = map(records.record, range(10 * number, 10 * number + 10))
        records.produce(loading.bootstrap, topic, values, timestamp_ms=moment)
    return topic


@pytest.fixture
def hole(loading, topic) -> str:
    """Skip the second hour, and load the rest as the batches 1 and 2."""
    loading.declare(topic)
    with loading.ledger() as ledger:
        piece = NamedRange.parse(f"{topic}/0 [10, 20)")
        flow.skip(ledger, Broker(loading.pipeline.source), loading.pipeline, piece, reason="poisoned")
    assert loading.run() == [1, 2]
    assert coverage(loading) == [(0, 10, 1), (10, 20, "skipped"), (20, 30, 2)]
    assert set(names(loading)) == {*range(10), *range(20, 30)}
    return topic


def test_a_window_fills_the_hole_in_it_and_leaves_the_rest_alone(loading, hole):
    loading.transform(RENAMING)
    assert loading.run(hour(1)) == [3]
    assert coverage(loading) == [(0, 10, 1), (10, 20, 3), (20, 30, 2)]
    assert names(loading) == {n: f"new n{n}" if 10 <= n < 20 else f"n{n}" for n in range(30)}
    assert batches(loading) == {1: ("live", "advanced"), 2: ("live", "advanced"), 3: ("backfill", "advanced")}
    assert loading.heads() == [30]


def test_a_hole_that_is_filled_in_part_splits_and_keeps_its_reason(loading, hole):
    loading.run(ranges(f"{hole}/0 [12, 15)"))
    assert coverage(loading) == [(0, 10, 1), (10, 12, "skipped"), (12, 15, 3), (15, 20, "skipped"), (20, 30, 2)]
    left = "SELECT reason, decided_by FROM tideline.coverage WHERE hole IS NOT NULL"
    assert loading.rows(left) == [("poisoned", "test")] * 2
    assert set(names(loading)) == {*range(10), *range(12, 15), *range(20, 30)}

    planned = loading.run(ranges(f"{hole}/0 [0, 30)"))
    assert {of for n, of in batches(loading).items() if n in planned} == {("backfill", "advanced")}
    assert (loading.rows(left), set(names(loading)), loading.published()) == ([], set(range(30)), 30)
    assert {offset: owners(loading)[offset] for offset in (9, 13, 20)} == {9: 1, 13: 3, 20: 2}


def test_a_failed_backfill_keeps_its_hole_until_a_run_that_requests_it_fills_it(loading, hole):
    loading.transform("import os\ndef records(batch): return os._exit(1) if batch.num_rows else batch")
    batch_ids = loading.plan("backfill", hour(1))
    with pytest.raises(RetryableError):
        loading.write("backfill", batch_ids)
    assert coverage(loading)[1] == (10, 20, "skipped")
    loading.transform("")
    assert loading.run() == []  # no head waits for it
    assert loading.run(OneBatch(batch_id=batch_ids[0])) == batch_ids
    assert (coverage(loading)[1], loading.published()) == ((10, 20, batch_ids[0]), 30)


def test_offsets_before_the_start_of_a_stream_can_be_loaded(loading, topic):
    loading.declare(topic, start="latest")
    assert loading.run() == []
    records.produce(loading.bootstrap, topic, map(records.record, range(30, 40)))
    loading.run()
    assert coverage(loading) == [(30, 40, 1)]
    loading.run(ranges(f"{topic}/0 [5, 12)"))
    assert coverage(loading) == [(5, 12, 2), (30, 40, 1)]
    assert set(names(loading)) == {*range(5, 12), *range(30, 40)}
    loading.run(hour(1))
    assert coverage(loading) == [(5, 12, 2), (12, 20, 3), (30, 40, 1)]
    assert set(names(loading)) == {*range(5, 20), *range(30, 40)}
    assert loading.heads() == [40]
    records.produce(loading.bootstrap, topic, [records.record(40)])
    loading.run()
    assert (loading.published(), loading.heads()) == (26, [41])


def test_a_window_that_is_loaded_already_plans_nothing(loading, hole):
    assert loading.plan("again", hour(0)) == []
    loading.run(hour(1))
    assert loading.plan("once more", hour(1)) == []
    assert len(batches(loading)) == 3
