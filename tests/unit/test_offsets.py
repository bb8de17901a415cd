"""Offset ranges are exact: every operation gives the same result as one on a set of offsets."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.domain.offsets import OffsetRange, subtract, union

ranges = st.builds(lambda start, count: OffsetRange(start, start + count), st.integers(0, 60), st.integers(1, 30))


def offsets(*pieces: OffsetRange) -> set[int]:
    return {offset for piece in pieces for offset in range(piece.start, piece.end)}


@given(whole=ranges, taken=st.lists(ranges, max_size=8))
def test_subtracting_is_exact_set_arithmetic(whole, taken):
    rest = list(subtract(whole, taken))
    assert offsets(*rest) == offsets(whole) - offsets(*taken)
    # As few ranges as possible, in order: between two of them some offset is taken.
    assert all(left.end < right.start for left, right in pairwise(rest))


@given(pieces=st.lists(ranges, max_size=8))
def test_a_union_is_the_same_offsets_in_as_few_ranges_as_possible(pieces):
    merged = union(pieces)
    assert offsets(*merged) == offsets(*pieces)
    # In order, and between two of them there is always an offset that is in neither.
    assert all(left.end < right.start for left, right in pairwise(merged))


@given(whole=ranges, pieces=st.lists(ranges, max_size=8))
def test_a_union_takes_away_what_its_ranges_take_away(whole, pieces):
    assert list(subtract(whole, union(pieces))) == list(subtract(whole, pieces))


def test_a_range_within_another_one_adds_nothing_to_a_union():
    """A shorter range that ends earlier must not truncate the longer one before it."""
    assert union([OffsetRange(5, 6), OffsetRange(0, 10), OffsetRange(10, 12)]) == [OffsetRange(0, 12)]


@given(left=ranges, right=ranges)
def test_overlapping_is_sharing_an_offset(left, right):
    assert left.overlaps(right) == right.overlaps(left) == bool(offsets(left) & offsets(right))


@given(piece=ranges, count=st.integers(1, 40), offset=st.integers(0, 100))
def test_a_range_is_the_set_of_its_offsets(piece, count, offset):
    assert len(piece) == len(offsets(piece))
    assert (offset in piece) == (offset in offsets(piece))
    assert offsets(piece.first(count)) == set(sorted(offsets(piece))[:count])


@pytest.mark.parametrize(("start", "end"), [(0, 0), (5, 5), (5, 4), (-1, 4), (-2, -1), (0, 2**63)])
def test_a_range_that_is_empty_backward_negative_or_too_long_cannot_be_made(start, end):
    with pytest.raises(ValueError, match=rf"\[{start}, {end}\)"):
        OffsetRange(start, end)


def test_the_first_of_no_offsets_cannot_be_made():
    with pytest.raises(ValueError, match="must not be empty"):
        OffsetRange(3, 9).first(0)
