"""No record's timestamp stops a partition: not one of 2099, not one of 1970, and no order of the others."""

import logging
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from given_ledger.planners import Brokerless, coverage, declared, finish, load, next_offsets, ranges_of, run
from given_topics import topics
from given_topics.topics import at
from tideline import flow
from tideline.domain.requests import NewRecords, Window
from tideline.kafka.broker import Broker

HOUR = timedelta(hours=1)
YEAR_1970 = datetime(1970, 1, 2, tzinfo=UTC)
YEAR_2099 = datetime(2099, 1, 1, tzinfo=UTC)
ODD = [0, 1, 2, YEAR_2099, 3, 5, 4, YEAR_1970, 6, 7, YEAR_2099, YEAR_2099, 8, 9]
"""The times of the real topic's records, by offset: minutes and years."""


def moment(when):
    return when if isinstance(when, datetime) else at(when)


def stamp(broker, topic, *times, partition=0):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for when in times:
        producer.produce(topic, b"x", partition=partition, timestamp=int(moment(when).timestamp() * 1000))
    assert producer.flush(20) == 0


@pytest.fixture
def odd(admin, broker):
    """Create a topic that accepts any timestamp and keeps it."""
    settings = {"message.timestamp.after.max.ms": str(2**62), "retention.ms": "-1"}
    name = topics.created(admin, f"odd_{uuid4().hex[:8]}", **settings)
    stamp(broker, name, *ODD)
    return name


@pytest.fixture
def pipeline(broker, odd):
    return declared(broker.bootstrap, odd)


def asked(ledger, pipeline, name, request, *, reason=None):
    return flow.plan(ledger, Broker(pipeline.source), pipeline, run(name), request, reason=reason).batch_ids


def planned(ledger, batch_ids):
    return [ranges_of(ledger, batch_id)[0] for batch_id in batch_ids]


def test_a_scheduled_run_goes_on_to_the_last_stable_offset_and_names_the_record(ledger, pipeline, odd, broker, caplog):
    first = load(ledger, asked(ledger, pipeline, "first", NewRecords(until=at(2))))
    assert planned(ledger, first) == [(0, 2)]  # the record found for 00:02 is the one of 00:02: it is not unusual
    with caplog.at_level(logging.WARNING):
        second = load(ledger, asked(ledger, pipeline, "second", NewRecords(until=at(5))))
    assert planned(ledger, second) == [(2, 14)]
    assert (
        f"{odd}/0: the record at offset 3 carries 2099-01-01T00:00:00.000+00:00, which is in the future" in caplog.text
    )
    caplog.clear()
    stamp(broker, odd, 10, 11)
    with caplog.at_level(logging.WARNING):
        third = load(ledger, asked(ledger, pipeline, "third", NewRecords(until=at(11))))
    assert (planned(ledger, third), next_offsets(ledger)) == ([(14, 16)], {0: 16})
    assert "which is in the future" not in caplog.text  # it is loaded


def test_windows_side_by_side_share_nothing_and_leave_nothing_out(ledger, pipeline):
    """Window edges are found by records that are not ahead of the clock. Records ahead of it belong to the records before or behind them."""
    load(ledger, asked(ledger, pipeline, "all", NewRecords()))
    edges = [at(0), at(2), at(3), at(6), at(8), at(10)]
    windows = [Window(start=a, end=b, replace=True) for a, b in pairwise(edges)]
    found = []
    for number, wanted in enumerate(windows):
        batch_ids = load(ledger, asked(ledger, pipeline, f"window {number}", wanted, reason="again"))
        found += planned(ledger, batch_ids)
        assert (
            asked(ledger, pipeline, f"window {number} as it is", wanted.__class__(start=wanted.start, end=wanted.end))
            == []
        )
    assert found == [(0, 2), (2, 3), (3, 8), (8, 10), (10, 14)]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_backfills_of_every_hour_load_everything_once_whatever_their_order(ledger, pipeline, order):
    windows = [Window(start=at(0), end=at(4)), Window(start=at(4), end=at(7)), Window(start=at(7), end=at(10))]
    for number in order:
        load(ledger, asked(ledger, pipeline, f"hour {number}", windows[number]))
    owned = [(start, end) for start, end, _ in coverage(ledger)]
    assert (owned[0][0], owned[-1][1], next_offsets(ledger)) == (0, 14, {0: 14})
    assert all(left[1] == right[0] for left, right in pairwise(owned))


def test_a_start_at_a_time_is_found_behind_a_record_that_is_ahead(broker, odd, ledger):
    pipeline = declared(broker.bootstrap, odd, start=at(6).isoformat())
    assert planned(ledger, asked(ledger, pipeline, "first", NewRecords())) == [(8, 14)]


def test_the_retention_warning_looks_past_a_record_that_is_ahead(broker, admin, ledger, caplog):
    settings = {"message.timestamp.after.max.ms": str(2**62), "retention.ms": str(7 * 24 * 3_600_000)}
    name = topics.created(admin, f"odd_{uuid4().hex[:8]}", **settings)
    now = datetime.now(UTC)
    pipeline = declared(broker.bootstrap, name)
    stamp(broker, name, YEAR_2099, now - 5 * 24 * HOUR, now)
    with caplog.at_level(logging.WARNING):
        load(ledger, asked(ledger, pipeline, "old", NewRecords(until=now - 6 * 24 * HOUR)))
    assert next_offsets(ledger) == {0: 3}
    warned = f"{name}/0: the oldest unread record, offset 0, has used more than half"
    assert warned in caplog.text
    caplog.clear()
    stamp(broker, name, YEAR_2099, datetime.now(UTC))
    with caplog.at_level(logging.WARNING):
        asked(ledger, pipeline, "new", NewRecords())
    assert "more than half" not in caplog.text


def test_a_retention_of_the_largest_number_keeps_records_for_ever(broker, admin, ledger):
    name = topics.created(admin, f"odd_{uuid4().hex[:8]}", **{"retention.ms": str(2**63 - 1)})
    pipeline = declared(broker.bootstrap, name)
    stamp(broker, name, YEAR_1970)
    assert planned(ledger, asked(ledger, pipeline, "first", NewRecords())) == [(0, 1)]
    assert Broker(pipeline.source).topic_facts()[0].retention_ms is None


NANOSECONDS = 1_795_599_646_000_000_000


def test_timestamps_in_nanoseconds_or_at_the_end_of_their_type_stop_no_plan(broker, admin, ledger):
    settings = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
    name = topics.created(admin, f"odd_{uuid4().hex[:8]}", **settings)
    for minute, timestamp in ((1, NANOSECONDS), (3, 2**63 - 1), (5, 1)):
        topics.produce(broker, name, timestamp=timestamp)
        stamp(broker, name, minute, minute + 1)
    pipeline = declared(broker.bootstrap, name, start=at(3).isoformat())
    assert planned(ledger, load(ledger, asked(ledger, pipeline, "first", NewRecords(until=at(7))))) == [(3, 9)]
    window = Window(start=at(3), end=at(5), replace=True)
    assert planned(ledger, asked(ledger, pipeline, "window", window, reason="again")) == [(3, 7)]


class Hourly(Brokerless):
    """A day of hourly runs."""

    def hour(self, number: int, request=None) -> None:
        until = at(60 * (number + 1))
        wanted = request or NewRecords(until=until, since=until - HOUR)
        finish(self.ledger, self.plan(f"{number} {request}", wanted))
        self.advance(f"{number} {request}")


def arrive(log, hour):
    """Append three records in each hour, unordered, and sometimes one whose timestamp is wrong by years."""
    odd = {3: YEAR_2099, 4: YEAR_1970, 11: YEAR_2099, 17: datetime(9999, 12, 31, tzinfo=UTC)}
    for minute in (40, 5, 20):
        log.append(at=at(60 * hour + minute))
        if minute == 5 and hour in odd:
            log.append(at=odd[hour])


@pytest.mark.parametrize("delivery", ["exactly_once", "latest_wins"])
def test_hourly_runs_of_a_day_end_without_lag_and_have_loaded_each_record_once(ledger, delivery):
    day = Hourly(ledger, 0, 0, source={"delivery": delivery})
    for hour in range(24):
        for log in day.logs:
            arrive(log, hour)
        day.hour(hour)
        assert next_offsets(ledger) == {number: log.end for number, log in enumerate(day.logs)}, hour
    for partition, log in enumerate(day.logs):
        owned = coverage(ledger, partition)
        assert [start for start, *_ in owned] == [0, *(end for _, end, _ in owned[:-1])]
        assert (owned[-1][1], {type(owner) for *_, owner in owned}) == (log.end, {int})


def test_a_day_that_is_backfilled_hour_by_hour_is_loaded_once(ledger):
    day = Hourly(ledger, 0, 0)
    for hour in range(24):
        for log in day.logs:
            arrive(log, hour)
    for hour in (5, 23, 0, 17, *range(24)):
        day.hour(hour, Window(start=at(60 * hour), end=at(60 * hour + 60)))
    for partition, log in enumerate(day.logs):
        owned = coverage(ledger, partition)
        assert [start for start, *_ in owned] == [0, *(end for _, end, _ in owned[:-1])]
        assert (owned[-1][1], {type(owner) for *_, owner in owned}) == (log.end, {int})


def test_a_window_of_a_past_hour_ends_behind_a_record_that_is_ahead(ledger):
    """It must not end at the end of the log: replacing an hour must not replace the rest of the day."""
    day = Hourly(ledger, 0)
    for hour in range(24):
        arrive(day.logs[0], hour)
    load(ledger, day.plan("all"))
    for hour, expected in ((2, (6, 9)), (3, (9, 13)), (4, (13, 17)), (10, (32, 35)), (23, (73, 76))):
        window = Window(start=at(60 * hour), end=at(60 * hour + 60), replace=True)
        assert planned(ledger, day.plan(f"hour {hour}", window)) == [expected], hour
