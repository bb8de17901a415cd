"""Finding the offset of a time in a log with few samples."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.domain.facts import RecordFacts
from tideline.domain.timestamps import TOLERANCE, first_late, is_ahead, is_late, milliseconds, written

NOW = datetime(2026, 11, 21, 14, tzinfo=UTC)


PLACE = ("ads", 0)


def first(late, start, end):
    """Search one partition."""
    return first_late(lambda asked: {place: late(offset) for place, offset in asked.items()}, {PLACE: (start, end)})[
        PLACE
    ]


def records(*times):
    return [
        RecordFacts(offset=n, timestamp=when if isinstance(when, int) else milliseconds(when), leader_epoch=0)
        for n, when in enumerate(times)
    ]


def test_a_record_is_ahead_once_clocks_that_differ_a_little_cannot_explain_it():
    assert not is_ahead(milliseconds(NOW + TOLERANCE), NOW)
    assert is_ahead(milliseconds(NOW + TOLERANCE) + 1, NOW)


def test_records_that_are_ahead_say_nothing_about_those_behind_them():
    hour = timedelta(hours=1)
    assert is_late(records(NOW + hour, NOW - hour), NOW - 2 * hour, NOW) is True
    assert is_late(records(NOW + hour, NOW - 3 * hour), NOW - 2 * hour, NOW) is False
    assert is_late(records(NOW + hour, 2**62), NOW, NOW) is None
    assert is_late([], NOW, NOW) is None


@pytest.mark.parametrize(
    ("timestamp", "text"), [(0, "1970-01-01T00:00:00.000+00:00"), (2**62, f"{2**62} ms after 1970")]
)
def test_a_timestamp_that_no_calendar_has_is_written_all_the_same(timestamp, text):
    assert written(timestamp) == text


@given(start=st.integers(0, 50), length=st.integers(0, 300), edge=st.integers(0, 400))
def test_in_a_log_in_order_the_first_late_record_is_found(start, length, edge):
    end = start + length
    assert first(lambda offset: offset >= edge, start, end) == min(max(edge, start), end)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.data())
def test_in_disorder_a_later_time_is_never_found_before_an_earlier_one(times, data):
    one, other = sorted((data.draw(st.integers(0, 21)), data.draw(st.integers(0, 21))))
    found = [first(lambda offset, time=time: times[offset] >= time, 0, len(times)) for time in (one, other)]
    assert found[0] <= found[1]


@given(st.integers(1, 2**40))
def test_few_looks_are_enough(edge):
    looked = []
    assert first(lambda offset: bool(looked.append(offset)) or offset >= edge, 0, 2**41) == edge
    assert len(looked) <= 2 * edge.bit_length() + 2


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 2**20), st.integers(0, 2**21)), max_size=60))
def test_many_partitions_take_no_more_looks_than_the_one_that_takes_most(logs):
    parts = {("ads", number): (start, start + length) for number, (start, length, _) in enumerate(logs)}
    edges = {("ads", number): edge for number, (_, _, edge) in enumerate(logs)}
    looks = []

    def late(asked):
        looks.append(asked)
        return {place: offset >= edges[place] for place, offset in asked.items()}

    found = first_late(late, parts)
    assert found == {place: min(max(edges[place], start), end) for place, (start, end) in parts.items()}
    assert len(looks) <= 2 * 20 + 2
