"""A timer comes when event time reaches it, before the record that does, and whatever `on_expiry` does to it."""

from datetime import timedelta
from decimal import Decimal

import orjson
import pytest

from stateful_events import Sessions, click, fold_in_cuts, states
from tideline.errors import FatalError
from tideline.processors import Processor
from tideline.state.key_state import MOST_EXPIRIES

MINUTE = timedelta(minutes=1)


def test_a_timer_comes_before_the_record_that_reaches_it_and_the_key_begins_anew():
    found = states().fold([click("a", 0, 0, price=1), click("a", 29.9, 1), click("a", 59.9, 2, price=4)])
    [row] = found.rows
    assert (row.offset, row.has_expired, row.values["clicks"], row.values["revenue"]) == (1, True, 2, Decimal(1))
    [kept] = found.kept
    assert (orjson.loads(kept.value)["clicks"], kept.offset) == (1, 2)


def test_a_timer_comes_at_the_end_of_the_batch_that_reaches_it_with_another_key():
    folded = states()
    assert folded.fold([click("a", 0, 0), click("b", 29, 1)]).rows == []
    [row] = folded.fold([click("b", 30, 2)]).rows
    assert (row.values["user_id"], row.offset, row.stream_id) == ("a", 0, 1)
    assert set(folded.stored) == {'["b"]'}


def test_lateness_holds_a_timer_back():
    folded = states(lateness=5 * MINUTE)
    assert folded.fold([click("a", 0, 0), click("b", 34, 1)]).rows == []
    assert len(folded.fold([click("b", 35, 2)]).rows) == 1


def test_a_quiet_stream_closes_nothing():
    folded = states()
    folded.fold([click("a", 0, 0)])
    assert folded.fold([click("b", 500, 0, stream_id=2)]).rows == []


class Ticks(Processor):
    """Returns a row each ten minutes, four times."""

    rows = {"n": "int"}  # noqa: RUF012 - as authors write it
    step = 10 * MINUTE

    def on_record(self, key, record, state):
        state.value, state.expires_at = {"clicks": 0, "first": record["at"]}, record["at"] + self.step

    def on_expiry(self, key, state):
        n = state.value["clicks"] + 1
        yield {"n": n}
        if n < 4:
            state.value = {**state.value, "clicks": n}
            state.expires_at = state.value["first"] + (n + 1) * self.step


@pytest.mark.parametrize("cuts", [[], [1], [1, 2, 3], [2, 4]])
def test_on_expiry_may_set_a_new_timer_and_the_rows_do_not_depend_on_cuts(cuts):
    folded = states(Ticks())
    records = [click("a", 0, 0), click("b", 12, 1), click("b", 21, 2), click("b", 31, 3), click("b", 41, 4)]
    rows = fold_in_cuts(folded, records, cuts)
    assert [row["n"] for row in rows if row["offset"] == 0] == [1, 2, 3, 4]
    assert set(folded.stored) == {'["b"]'}


class Still(Ticks):
    """Sets the same timer again."""

    def on_expiry(self, key, state):
        state.expires_at = state.value["first"] + self.step


def test_a_new_timer_that_is_not_later_fails_the_batch_and_names_the_key():
    with pytest.raises(
        FatalError, match=r'key \["a"\] of clicks/0 .* offset 0: MisfitError: a new timer must be later'
    ):
        states(Still()).fold([click("a", 0, 0), click("a", 60, 1)])


def test_timers_that_move_by_too_little_fail_the_batch():
    class Slow(Ticks):
        def on_expiry(self, key, state):
            number = state.value["clicks"] + 1
            state.value = {**state.value, "clicks": number}
            state.expires_at = state.value["first"] + self.step + timedelta(microseconds=number)

    with pytest.raises(FatalError, match=f"more than {MOST_EXPIRIES} timers"):
        states(Slow()).fold([click("a", 0, 0), click("a", 60, 1)])


def test_an_expiry_that_raises_fails_the_batch_and_changes_no_state():
    class Failing(Sessions):
        def on_expiry(self, key, state):
            raise KeyError("country")

    folded = states(Failing())
    folded.fold([click("a", 0, 0)])
    before = dict(folded.stored)
    with pytest.raises(FatalError, match=r"key \[\"a\"\] of clicks/0 at 2026-11-01T00:30:00.* KeyError: 'country'"):
        folded.fold([click("b", 70, 1)])
    assert folded.stored == before
