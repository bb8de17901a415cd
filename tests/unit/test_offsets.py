"""Offset ranges are exact: whatever they say, a set of offsets would say the same."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.domain.offsets import OffsetRange, subtract

exact = settings(deadline=None, derandomize=True)

ranges = st.builds(lambda start, count: OffsetRange(start, start + count), st.integers(0, 60), st.integers(1, 30))


def offsets(*pieces: OffsetRange) -> set[int]:
    return {offset for piece in pieces for offset in range(piece.start, piece.end)}


@exact
@given(whole=ranges, taken=st.lists(ranges, max_size=8))
def test_subtracting_is_exact_set_arithmetic(whole, taken):
    rest = list(subtract(whole, taken))
    assert offsets(*rest) == offsets(whole) - offsets(*taken)
    # As few ranges as possible, in order: between two of them there is always something taken.
    assert all(left.end < right.start for left, right in pairwise(rest))


@exact
@given(left=ranges, right=ranges)
def test_overlapping_is_sharing_an_offset(left, right):
    assert left.overlaps(right) == right.overlaps(left) == bool(offsets(left) & offsets(right))


@exact
@given(piece=ranges, count=st.integers(1, 40), offset=st.integers(0, 100))
def test_a_range_is_the_set_of_its_offsets(piece, count, offset):
    assert len(piece) == len(offsets(piece))
    assert (offset in piece) == (offset in offsets(piece))
    assert offsets(piece.first(count)) == set(sorted(offsets(piece))[:count])


@pytest.mark.parametrize(("start", "end"), [(0, 0), (5, 5), (5, 4), (-1, 4), (-2, -1)])
def test_a_range_that_is_empty_backward_or_negative_cannot_be_made(start, end):
    with pytest.raises(ValueError, match=rf"\[{start}, {end}\)"):
        OffsetRange(start, end)


def test_the_first_of_no_offsets_cannot_be_made():
    with pytest.raises(ValueError, match="must not be empty"):
        OffsetRange(3, 9).first(0)
