"""The state of a key is the fold of its records in order, wherever batches are cut, and whatever a record does to it."""

from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateful_events import EPOCH, GAP, STREAMS, click, fold_in_cuts, reduced, rules, states
from tideline.processors import Processor
from tideline.state.folding import Fold, FoldedStream, Planned, Rejected

MINUTE = timedelta(minutes=1)
# Each stream has users of its own, and time that only goes forward.
STEPS = st.lists(
    st.tuples(st.sampled_from([1, 2]), st.integers(0, 3), st.integers(0, 40), st.decimals(0, 5, places=6)), max_size=60
)


def in_order(steps):
    """Make clicks of steps (stream, user, minutes since the last click of the stream, price)."""
    minutes, offsets = {1: 0, 2: 0}, {1: 0, 2: 0}
    for stream_id, user, step, price in steps:
        minutes[stream_id] += step
        yield click(f"u{user}/{stream_id}", minutes[stream_id], offsets[stream_id], price=price, stream_id=stream_id)
        offsets[stream_id] += 1


def plain(stored):
    """Return stored states with their columns."""
    return {key: (orjson.loads(one.value), one.expires_at, one.offset) for key, one in stored.items()}


@settings(max_examples=150)
@given(STEPS, st.lists(st.integers(0, 60), max_size=6), st.integers(1, 7))
def test_any_cuts_of_data_in_order_give_the_rows_and_the_states_of_a_plain_loop(steps, cuts, chunk_records):
    records = list(in_order(steps))
    cuts = [cut for cut in cuts if cut <= len(records)]
    folded = states()
    rows = fold_in_cuts(folded, records, cuts, chunk_records)
    until = {one: max((r.values["at"] for r in records if r.stream_id == one), default=EPOCH) for one in STREAMS}
    closed, open_ones = reduced(sorted(records, key=lambda record: record.stream_id), until)
    # A stream without records in the last batches is quiet, and closes nothing: so what is due there is due still.
    assert rows == closed
    assert {key: (one["clicks"], one["last"] + GAP, one["offset"]) for key, one in open_ones.items()} == {
        key: (value["clicks"], at, offset) for key, (value, at, offset) in plain(folded.stored).items()
    }


@settings(max_examples=80)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 90), st.sampled_from([None, 1, 13])), max_size=40),
    st.lists(st.integers(0, 40), max_size=4), st.integers(1, 9), st.integers(0, 30),
)  # fmt: skip
def test_the_same_cuts_give_the_same_result_in_any_chunks_and_any_order_of_arrival(
    steps, cuts, chunk_records, lateness
):
    records = [click(f"u{user}", minute, n, price=price) for n, (user, minute, price) in enumerate(steps)]
    cuts = [cut for cut in cuts if cut <= len(records)]
    one, other = (states(lateness=lateness * MINUTE) for _ in range(2))
    assert fold_in_cuts(one, records, cuts) == fold_in_cuts(other, records, cuts, chunk_records)
    assert (plain(one.stored), one.latest) == (plain(other.stored), other.latest)
    bounds = [0, *sorted({*cuts}), len(records)]
    shuffled = states(lateness=lateness * MINUTE)
    for start, end in pairwise(bounds):
        shuffled.fold(records[start:end][::-1], chunk_records)
    assert (plain(one.stored), one.latest) == (plain(shuffled.stored), shuffled.latest)


def test_a_hot_key_streams_over_chunks_and_only_its_state_is_held():
    fold = Fold(rules(), {1: FoldedStream("clicks/0", None)})
    kept = []
    for chunk in range(50):
        folded = fold.fold((click("hot", 0, 100 * chunk + n) for n in range(100)), {})
        assert (folded.kept, folded.rows) == ([], [])
        assert fold.not_open([click("hot", 0, 0), click("cold", 0, 0)]) == ['["cold"]']
    kept = fold.finish().kept
    assert [(one.key, orjson.loads(one.value)["clicks"], one.offset) for one in kept] == [('["hot"]', 5000, 4999)]


def test_a_record_that_raises_is_a_reject_and_leaves_the_state_as_before():
    folded = states()
    found = folded.fold([click("a", 0, 0, price=2), click("a", 1, 1, price=13), click("a", 2, 2, price=3)])
    assert found.rejected == [Rejected(1, "ValueError: 13 is unlucky")]
    assert plain(folded.stored)['["a"]'] == (
        {"first": "2026-11-01T00:00:00Z", "clicks": 2, "revenue": "5.000000"}, EPOCH + 2 * MINUTE + GAP, 2,
    )  # fmt: skip
    again = folded.fold([click("a", 3, 3, price=13), click("b", 3, 4, price=13)])
    assert [one.number for one in again.rejected] == [0, 1]
    assert again.kept == []


@pytest.mark.parametrize("cuts", [[], [1], [2], [1, 2, 3]])
def test_a_rejected_record_lets_no_timer_come(cuts):
    """The fold is that of the records that are loaded: a reject from the future ended the visit of its user, and wrote its row."""
    with_it, without = states(), states()
    records = [click("a", 0, 0, price=2), click("a", 5, 1), click("a", 500, 2, price=13), click("a", 9, 3)]
    rows = fold_in_cuts(with_it, records, cuts)
    assert rows == fold_in_cuts(without, [records[0], records[1], records[3]], []) == []
    assert plain(with_it.stored) == plain(without.stored)


def test_a_rejected_record_does_not_raise_the_watermark():
    folded = states()
    folded.fold([click("a", 0, 0), click("b", 50, 1, price=13)])
    assert folded.latest == {1: EPOCH}
    assert set(folded.stored) == {'["a"]'}


def test_a_late_record_is_a_reject_with_its_reason():
    folded = states(lateness=10 * MINUTE)
    folded.fold([click("a", 60, 0)])
    found = folded.fold([click("a", 49.5, 1), click("a", 50, 2), click("a", 61, 3)])
    [rejected] = found.rejected
    assert rejected == Rejected(
        0, "late: event time 2026-11-01T00:49:30Z is before the watermark 2026-11-01T00:50:00Z of clicks/0"
    )


def in_kafka(record, minute):
    """Return a record with this timestamp of Kafka, in minutes after `EPOCH`."""
    at = None if minute is None else EPOCH + minute * MINUTE
    return record._replace(values={**record.values, "kafka": {**record.values["kafka"], "timestamp": at}})


def test_a_record_ahead_of_its_time_is_a_reject_and_leaves_the_partition_as_it_was():
    """A sender that took milliseconds for seconds has written one record. Every later record of the partition was late for ever."""
    folded = states()
    century = 60 * 24 * 36525
    one = [click("a", 0, 0), in_kafka(click("b", century, 1), 1), in_kafka(click("a", century, 2), 2)]
    found = folded.fold(one)
    assert [rejected.number for rejected in found.rejected] == [1, 2]
    assert found.rejected[0].reason == (
        "ahead of its time: event time 2126-11-02T00:00:00Z is more than 60 minutes after 2026-11-01T00:01:00Z, its timestamp in Kafka"
    )
    assert (found.rows, folded.latest) == ([], {1: EPOCH})
    assert folded.fold([click("a", 5, 3), click("c", 6, 4)]).rejected == []


def test_a_record_may_be_as_far_ahead_as_is_declared():
    folded = states(ahead=10 * MINUTE)
    records = [in_kafka(click(f"u{n}", minute, n), 0) for n, minute in enumerate((10, 10.5, -500))]
    assert [rejected.number for rejected in folded.fold(records).rejected] == [1]
    assert folded.latest == {1: EPOCH + 10 * MINUTE}


def test_a_record_whose_timestamp_in_kafka_is_ahead_too_is_judged_by_the_time_of_the_first_plan():
    """A producer with a wrong clock writes both. Each piece of a batch is judged by the time of its own first plan."""
    folded = states()
    folded.planned = {1: [Planned(0, 2, EPOCH), Planned(2, 4, EPOCH + 100 * MINUTE)]}
    records = [click(f"u{n}", 90, n) for n in range(4)]
    records[3] = in_kafka(records[3], None)
    found = folded.fold(records)
    assert [rejected.number for rejected in found.rejected] == [0, 1]
    assert found.rejected[1].reason == (
        "ahead of its time: event time 2026-11-01T01:30:00Z is more than 60 minutes after 2026-11-01T00:00:00Z, when it was first planned"
    )


def test_the_timestamp_in_kafka_as_event_time_is_judged_by_the_plan():
    folded = states(event_time=None)
    folded.planned = {1: [Planned(0, 9, EPOCH)]}
    assert [one.number for one in folded.fold([click("a", 60, 0), click("a", 61, 1)]).rejected] == [1]


def test_records_of_one_batch_are_not_late_for_each_other():
    assert states().fold([click("a", 60, 0), click("b", 0, 1)]).rejected == []


def test_a_late_record_is_folded_where_the_declaration_says_so_and_raises_no_watermark():
    folded = states(rejects_late=False)
    folded.fold([click("a", 60, 0)])
    assert folded.fold([click("b", 0, 1)]).rejected == []
    assert folded.latest == {1: EPOCH + 60 * MINUTE}


def test_a_key_of_two_partitions_is_a_reject_that_names_its_own():
    folded = states()
    folded.fold([click("a", 0, 0)])
    found = folded.fold([click("a", 1, 0, stream_id=2), click("b", 1, 1, stream_id=2), click("b", 2, 1)])
    assert found.rejected == [
        Rejected(0, 'key ["a"] belongs to clicks/0, and a key has one partition'),
        Rejected(1, 'key ["b"] belongs to clicks/0, and a key has one partition'),
    ]


def test_a_key_whose_state_is_gone_may_come_from_another_partition():
    folded = states()
    folded.fold([click("a", 0, 0), click("c", 45, 1)])
    assert folded.fold([click("a", 50, 0, stream_id=2)]).rejected == []


def test_a_record_without_an_event_time_is_a_reject():
    found = states().fold([click("a", None, 0), click("a", 1, 1)])
    assert found.rejected == [Rejected(0, "no event time: at is null")]
    found = states(event_time=None).fold([click("a", None, 0)])
    assert found.rejected == [Rejected(0, "no event time: the timestamp of the Kafka record is null")]


class Keeping(Processor):
    """Keeps what the record says, in place and otherwise."""

    rows = {"n": "int"}  # noqa: RUF012 - as authors write it

    def on_record(self, key, record, state):
        state.value = record["keep"]
        state.expires_at = record.get("until")
        return record.get("rows")


def test_a_state_that_is_too_large_is_a_reject_and_the_one_before_stays():
    folded = states(Keeping(), columns={"text": rules().key["user_id"]}, max_bytes=30)
    found = folded.fold([click("a", 0, 0, keep={"text": "x" * 19}), click("a", 1, 1, keep={"text": "x" * 20})])
    assert found.rejected == [
        Rejected(1, "MisfitError: the state would have 31 bytes, more than the 30 of state.max_bytes")
    ]
    assert plain(folded.stored)['["a"]'][0] == {"text": "x" * 19}


@pytest.mark.parametrize(
    ("keep", "more", "reason"),
    [
        ({"clicks": "1"}, {}, "state.value: column clicks: expected bigint, found str"),
        ({"click": 1}, {}, "state.value: column click: not declared"),
        ({"clicks": 1.0}, {}, "state.value: column clicks: expected bigint, found float"),
        ({"clicks": 2**63}, {}, "state.value: column clicks: a number is too large for bigint"),
        ({"first": datetime(2026, 1, 1)}, {}, "state.value: column first: a timestamp without a zone"),  # noqa: DTZ001
        ({"revenue": Decimal("0.0000001")}, {}, "state.value: column revenue: a number has too many digits after the point"),
        ([1], {}, "state.value: expected columns by name, found list"),
        ({}, {"until": datetime(2026, 1, 1)}, "state.expires_at: a timestamp without a zone"),  # noqa: DTZ001
        ({}, {"rows": [{"n": "1"}]}, "column n: expected int, found str"),
        ({}, {"rows": [{"m": 1}]}, "column m: not declared"),
        ({}, {"rows": {"n": 1}}, "expected columns by name, found str"),
    ],
)  # fmt: skip
def test_a_state_or_a_row_that_does_not_fit_is_a_reject_of_its_record(keep, more, reason):
    folded = states(Keeping())
    found = folded.fold([click("a", 0, 0, keep=keep, **more)])
    assert folded.stored == {}
    assert found.rows == []
    [rejected] = found.rejected
    assert f"MisfitError: {reason}" in rejected.reason


def test_a_timer_keeps_an_empty_state_and_a_cleared_one_is_gone():
    folded = states(Keeping())
    folded.fold([click("a", 0, 0, keep=None, until=EPOCH + GAP), click("b", 0, 1, keep={})])
    assert plain(folded.stored) == {'["a"]': ({}, EPOCH + GAP, 0), '["b"]': ({}, None, 1)}
    found = folded.fold([click("a", 1, 2, keep=None), click("b", 1, 3, keep=None), click("c", 1, 4, keep=None)])
    assert folded.stored == {}
    assert [(one.key, one.value) for one in found.kept] == [('["a"]', None), ('["b"]', None)]
