"""Rows are counted by the offset of their record as a list of them would be, in one byte for each offset."""

from collections import Counter
from uuid import UUID

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tideline.domain.offsets import OffsetRange
from tideline.ledger.attempts import Range
from tideline.sinks.delta.marked_offsets import Marked
from tideline.sinks.sink import Refused

RANGES = [
    Range(
        stream_id=n,
        cluster_id="c",
        topic="t",
        topic_id=UUID(int=n),
        partition=0,
        offsets=OffsetRange(start, end),
        gaps_allowed=False,
    )
    for n, (start, end) in {1: (5, 15), 2: (100, 104)}.items()
]
PLACES = st.one_of(st.tuples(st.just(1), st.integers(5, 14)), st.tuples(st.just(2), st.integers(100, 103)))


def of_places(places) -> pa.Table:
    columns = {"stream": [stream for stream, _ in places], "offset": [offset for _, offset in places]}
    return pa.table(columns, schema=pa.schema([("stream", pa.int64()), ("offset", pa.int64())]))


@given(files=st.lists(st.lists(PLACES)), rejected=st.sets(PLACES))
def test_counts_are_those_of_a_list_of_rows(files, rejected):
    marked = Marked(RANGES)
    for places in files:
        assert marked.add(of_places(places)) is None
    counted = Counter(place for places in files for place in places)
    assert marked.n_rows == counted.total()
    assert marked.doubled("why") == [Refused(*place, "why") for place in sorted(counted) if counted[place] > 1]
    left_out = rejected | {place for place in counted if counted[place] > 1}
    n_rows, written = marked.written_without(of_places(sorted(left_out)))
    kept = Counter(stream for stream, offset in counted.keys() - left_out)
    assert (n_rows, written.n_written) == (kept.total(), dict(kept))


def test_rows_that_the_batch_does_not_have_are_named():
    assert Marked(RANGES).add(of_places([(1, 5), (1, 15)])) == (1, 5, 15)
    assert Marked(RANGES).add(of_places([(3, 5)])) == (3, 5, 5)


def test_more_rows_of_a_record_than_a_byte_can_count_are_several():
    marked = Marked(RANGES)
    for _ in range(3):
        marked.add(of_places([(1, 7)] * 256))
    assert marked.doubled("why") == [Refused(1, 7, "why")]
