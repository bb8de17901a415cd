"""Cutting new offsets into batches, checked for any streams and limits."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.domain.offsets import OffsetRange, subtract
from tideline.domain.planning import PlanLimits, cut, newest, records_for

PLENTY = 10_000


@st.composite
def free_ranges(draw):
    """Draw streams with ascending ranges and taken offsets between them, as a ledger with open batches leaves them."""
    cuts = st.sets(st.integers(0, 60), min_size=2, max_size=8).map(sorted)
    return {
        stream: [OffsetRange(a, b) for a, b in zip(edges[::2], edges[1::2], strict=False)]
        for stream, edges in draw(st.dictionaries(st.integers(1, 9), cuts, max_size=6)).items()
    }


limits = st.builds(PlanLimits, batch_records=st.integers(1, 40), run_batches=st.integers(1, 6))
enough = st.builds(PlanLimits, batch_records=st.integers(1, 40), run_batches=st.just(PLENTY))


def planned(batches):
    """Count how often each (stream, offset) is in a batch."""
    return Counter((s, offset) for batch in batches for s, r in batch.items() for offset in range(r.start, r.end))


def everything(free):
    return {(stream, offset) for stream, pieces in free.items() for r in pieces for offset in range(r.start, r.end)}


@given(free=free_ranges(), limits=enough)
def test_every_offset_is_in_exactly_one_batch(free, limits):
    assert planned(cut(free, limits)) == Counter(everything(free))


@given(free=free_ranges(), limits=limits)
def test_no_offset_is_in_two_batches_and_none_is_made_up(free, limits):
    found = planned(cut(free, limits))
    assert set(found) <= everything(free)
    assert all(times == 1 for times in found.values())


@given(free=free_ranges(), limits=limits)
def test_within_a_stream_batches_ascend_without_leaving_anything_out(free, limits):
    batches = cut(free, limits)
    for stream, pieces in free.items():
        taken = [batch[stream] for batch in batches if stream in batch]
        assert taken == sorted(taken)
        if taken:
            reached = [piece for p in pieces for piece in subtract(p, taken)]
            assert all(piece.start >= taken[-1].end for piece in reached)


@given(free=free_ranges(), limits=limits)
def test_limits_are_kept_and_used(free, limits):
    batches = cut(free, limits)
    assert len(batches) <= limits.run_batches
    left = everything(free)
    for batch in batches:
        size = sum(map(len, batch.values()))
        assert 0 < size <= limits.batch_records
        # A batch smaller than permitted has taken the first range of every stream completely.
        next_ranges = {s: OffsetRange(min(o for t, o in left if t == s), 61) for s, _ in left}
        left -= set(planned([batch]))
        if size < limits.batch_records:
            assert set(batch) == set(next_ranges)
            assert all((s, r.end) not in left for s, r in batch.items())
    assert not left or len(batches) == limits.run_batches


@given(free=free_ranges(), batch_records=st.integers(1, 40))
def test_a_long_stream_does_not_starve_the_others(free, batch_records):
    """Each of n streams gets at least the n-th part of a batch, or all that it has."""
    streams = [stream for stream, pieces in free.items() if pieces]
    for batch in cut(free, PlanLimits(batch_records=batch_records, run_batches=1)):
        for stream in streams:
            fair = min(batch_records // len(streams), len(free[stream][0]))
            assert len(batch.get(stream, ())) >= fair


@given(free=free_ranges(), batch_records=st.integers(1, 3))
def test_streams_that_a_small_batch_left_out_come_first_in_the_next(free, batch_records):
    """If a batch has fewer records than there are streams, every stream is still in one of the first batches."""
    streams = [stream for stream, pieces in free.items() if pieces]
    rounds = -(-len(streams) // batch_records)
    batches = cut(free, PlanLimits(batch_records=batch_records, run_batches=PLENTY))
    assert {stream for batch in batches[:rounds] for stream in batch} == set(streams)


@given(free=free_ranges(), limits=limits)
def test_the_same_input_in_any_order_gives_the_same_batches(free, limits):
    turned = dict(reversed(free.items()))
    first, second = cut(free, limits), cut(turned, limits)
    assert [list(batch.items()) for batch in first] == [list(batch.items()) for batch in second]


def test_nothing_new_gives_no_batch():
    assert cut({}, PlanLimits(batch_records=1, run_batches=1)) == []
    assert cut({1: []}, PlanLimits(batch_records=1, run_batches=1)) == []


def offsets(ranges):
    return [offset for piece in ranges for offset in range(piece.start, piece.end)]


@given(free=free_ranges(), count=st.integers(0, 200))
def test_the_newest_are_the_last_of_each_stream_and_no_more_than_requested(free, count):
    kept = newest(free, count)
    everything_there = {stream: offsets(pieces) for stream, pieces in free.items()}
    for stream, pieces in kept.items():
        assert pieces
        assert pieces == sorted(pieces)
        assert offsets(pieces) == everything_there[stream][-len(offsets(pieces)) :]
    total = sum(map(len, everything_there.values()))
    assert sum(len(offsets(pieces)) for pieces in kept.values()) == min(count, total)


@given(free=free_ranges(), count=st.integers(0, 200))
def test_of_the_newest_each_stream_has_all_it_has_or_as_many_as_any_other(free, count):
    kept = newest(free, count)
    sizes = {stream: len(offsets(kept.get(stream, []))) for stream in free}
    for stream, pieces in free.items():
        if sizes[stream] < len(offsets(pieces)):
            assert sizes[stream] >= max(sizes.values()) - 1


@given(free=free_ranges(), count=st.integers(0, 200))
def test_the_newest_do_not_depend_on_the_order_of_streams(free, count):
    assert list(newest(free, count).items()) == list(newest(dict(reversed(free.items())), count).items())


@pytest.mark.parametrize(
    ("batch_records", "batch_bytes", "average_bytes", "expected"),
    [
        (1000, None, 500, 1000),
        (1000, 100_000, 500, 200),
        (1000, 100_000, 10, 1000),
        (1000, 100_000, None, 97),  # 1 KiB each
        (1000, 100, 500, 1),
        (1000, 100_000, 333.3, 300),
        (1000, 500, 0, 500),
        (1000, 500, 0.25, 500),
    ],
)
def test_a_batch_keeps_to_its_bytes_by_what_records_took_before(batch_records, batch_bytes, average_bytes, expected):
    assert records_for(batch_records, batch_bytes, average_bytes) == expected
