"""Requests: an impossible one is refused when it is made, with an example of a correct one."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, Ranges, Window

T0 = datetime(2026, 1, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)

topics = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True)
pieces = st.builds(lambda start, count: OffsetRange(start, start + count), st.integers(0, 2**62), st.integers(1, 9))
named = st.builds(NamedRange, topics, st.integers(0, 2**31 - 1), pieces)
near = st.builds(lambda start, count: OffsetRange(start, start + count), st.integers(0, 30), st.integers(1, 9))
crowded = st.lists(
    st.builds(NamedRange, st.sampled_from(["ads", "sales"]), st.integers(0, 1), near), min_size=1, max_size=6
)


@given(piece=named)
def test_a_range_is_read_as_it_is_written(piece):
    assert NamedRange.parse(str(piece)) == piece
    assert NamedRange.parse(f"  {str(piece).replace('/', ' / ').replace(',', ' , ')} ") == piece


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ads",
        "ads/3",
        "ads/3 [1, 2]",
        "ads/3 (1, 2)",
        "ads/3 [1, )",
        "ads/-1 [1, 2)",
        "ads/3 [-1, 2)",
        "ads/3 [1, 2) [3, 4)",
        "ads/3 [1.0, 2)",
        "ads/3 [1_000, 2_000)",
        "ads/\u0663 [\u0661, \u0662)",
        "a b/3 [1, 2)",
        "/3 [1, 2)",
        "x/ads/3 [1, 2)",
        "ads/3\n[1, 2)x",
    ],
)
def test_what_is_no_range_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match=r"expected a range like `ads/3 \[100, 200\)`, found"):
        NamedRange.parse(text)


@pytest.mark.parametrize("bounds", ["[5, 5)", "[6, 5)", "[0, 9223372036854775808)", f"[0, {'9' * 30})"])
def test_a_range_that_kafka_cannot_have_is_refused_and_quoted(bounds):
    """No offset in Kafka and none of the ledger's columns is longer than 64 bits."""
    with pytest.raises(ValueError, match="offset range") as caught:
        NamedRange.parse(f"ads/3 {bounds}")
    assert f"`ads/3 {bounds}`" in str(caught.value)


def test_the_last_offset_that_there_can_be_is_a_range():
    assert len(OffsetRange(2**63 - 2, 2**63 - 1)) == 1


@pytest.mark.parametrize(("start", "end"), [(T0, T0), (T0 + HOUR, T0)])
def test_a_window_starts_before_it_ends(start, end):
    with pytest.raises(ValueError, match="must start before it ends"):
        Window(start=start, end=end)


def test_a_window_that_is_empty_only_by_its_zones_is_empty():
    elsewhere = T0.astimezone(timezone(timedelta(hours=5)))
    with pytest.raises(ValueError, match="must start before it ends"):
        Window(start=elsewhere, end=T0)
    assert Window(start=elsewhere, end=T0 + HOUR).start == T0


@pytest.mark.parametrize("edge", ["start", "end"])
def test_a_window_says_which_moments_it_means(edge):
    edges = {"start": T0, "end": T0 + HOUR}
    edges[edge] = edges[edge].replace(tzinfo=None)
    with pytest.raises(ValueError, match=f"`{edge}` has no zone"):
        Window(**edges)


@pytest.mark.parametrize("edge", ["until", "since"])
def test_new_records_end_and_begin_at_moments_with_a_zone(edge):
    with pytest.raises(ValueError, match=f"`{edge}` has no zone"):
        NewRecords(**{edge: datetime(2026, 1, 2)})  # noqa: DTZ001 - this is the mistake under test


def test_no_ranges_are_refused():
    with pytest.raises(ValueError, match="at least one range"):
        Ranges(ranges=())


@given(ranges=crowded)
def test_ranges_are_refused_exactly_when_two_of_one_partition_share_an_offset(ranges):
    overlap = any(
        (a.topic, a.partition) == (b.topic, b.partition) and a.offsets.overlaps(b.offsets)
        for n, a in enumerate(ranges)
        for b in ranges[:n]
    )
    if overlap:
        with pytest.raises(ValueError, match="do not overlap"):
            Ranges(ranges=tuple(ranges))
    else:
        assert Ranges(ranges=tuple(ranges)).ranges == tuple(ranges)


def test_a_long_range_hides_no_overlap_behind_a_short_one():
    pieces = tuple(NamedRange.parse(f"ads/0 {bounds}") for bounds in ("[0, 100)", "[1, 2)", "[50, 60)"))
    with pytest.raises(ValueError, match="do not overlap"):
        Ranges(ranges=(pieces[0], pieces[2]))
    with pytest.raises(ValueError, match="do not overlap"):
        Ranges(ranges=pieces)
    assert len(Ranges(ranges=(pieces[1], pieces[2])).ranges) == 2
