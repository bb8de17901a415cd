"""Airflow reprocesses a past run under its old id: which batches such a run gets."""

from datetime import UTC, datetime, timedelta

import pytest

from given_ledger.ledgers import query
from given_ledger.planners import NAME, ask, declared, finish, plan, ranges_of
from given_topics.topics import produce
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, Window
from tideline.kafka.broker import Broker
from tideline.ledger import heads

T0 = datetime(2026, 1, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def pipeline(broker, topic):
    """Create two hours with three records each."""
    for hour in range(2):
        produce(broker, topic, 3, timestamp=int((T0 + hour * HOUR).timestamp() * 1000))
    return declared(broker.bootstrap, topic)


def load(ledger, batch_ids):
    finish(ledger, batch_ids)
    heads.advance_published(ledger, NAME)
    return batch_ids


def test_a_loaded_hour_that_is_reprocessed_plans_nothing(ledger, ledger_url, pipeline):
    [batch_id] = load(ledger, plan(ledger_url, pipeline, "hour 0", until=T0 + HOUR))
    again = ask(ledger_url, pipeline, "hour 0", Window(start=T0, end=T0 + HOUR))
    assert again.batch_ids == []
    assert f"loaded by batch {batch_id}" in again.notes[0]


def test_a_loaded_hour_that_is_reprocessed_is_replaced_on_request(ledger, ledger_url, pipeline):
    [first] = load(ledger, plan(ledger_url, pipeline, "hour 0", until=T0 + HOUR))
    window = Window(start=T0, end=T0 + HOUR, replace=True)
    [second] = ask(ledger_url, pipeline, "hour 0", window, reason="test").batch_ids
    assert ranges_of(ledger, second) == ranges_of(ledger, first)
    assert ask(ledger_url, pipeline, "hour 0", window, reason="test").batch_ids == [first, second], (
        "until it is finished"
    )
    load(ledger, [second])
    [third] = ask(ledger_url, pipeline, "hour 0", window, reason="test").batch_ids
    assert query(ledger, "SELECT kind::text FROM tideline.batch WHERE batch_id IN (%s, %s)", second, third) == [
        ("replay",),
        ("replay",),
    ]


def test_a_hole_that_was_left_in_an_hour_is_filled_when_it_is_reprocessed(ledger, ledger_url, pipeline, topic):
    load(ledger, plan(ledger_url, pipeline, "hour 0", until=T0 + HOUR))
    flow.skip(ledger, Broker(pipeline.source), pipeline, NamedRange(topic, 0, OffsetRange(3, 5)), reason="poison")
    load(ledger, plan(ledger_url, pipeline, "hour 1", until=T0 + 2 * HOUR))
    [filled] = ask(ledger_url, pipeline, "hour 1", Window(start=T0 + HOUR, end=T0 + 2 * HOUR)).batch_ids
    assert ranges_of(ledger, filled) == {0: (3, 5)}


def test_a_run_for_new_records_gets_its_batches_for_ever(ledger, ledger_url, pipeline):
    batch_ids = load(ledger, plan(ledger_url, pipeline, "manual"))
    assert plan(ledger_url, pipeline, "manual") == batch_ids
