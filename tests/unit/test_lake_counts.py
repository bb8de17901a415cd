"""Rows of one record are told apart in slices of a batch: the counts and the rejects are those of all rows at once."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind
from tideline.sinks.delta import listed_rows
from tideline.sinks.delta.listed_rows import Listed, Sliced

RANGES = {3: OffsetRange(10, 30), 5: OffsetRange(0, 7), 8: OffsetRange(1000, 1011)}
RECORDS = [(stream, offset) for stream, offsets in RANGES.items() for offset in range(offsets.start, offsets.end)]
ATTEMPT = SimpleNamespace(
    kind=BatchKind.LIVE, ranges=[SimpleNamespace(stream_id=stream, offsets=one) for stream, one in RANGES.items()]
)


def table(rows, *names):
    columns = zip(*rows, strict=True) if rows else [[]] * len(names)
    return pa.table({name: pa.array(list(column), pa.int64()) for name, column in zip(names, columns, strict=True)})


@settings(max_examples=60)
@given(
    rows=st.lists(st.tuples(st.sampled_from(RECORDS), st.integers(0, 2)), max_size=120),
    n_files=st.integers(1, 4),
    rejected=st.lists(st.sampled_from(RECORDS), max_size=4, unique=True),
    at_once=st.integers(1, 50),
)
def test_slices_count_and_reject_what_all_rows_at_once_do(rows, n_files, rejected, at_once):
    flat = [(stream, offset, item) for (stream, offset), item in rows]
    files = [part for n in range(n_files) if len(part := table(flat[n::n_files], "stream", "offset", "item")) or n == 0]
    whole = Listed(ATTEMPT, "item")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listed_rows, "ROWS_AT_ONCE", at_once)
        sliced = Sliced(ATTEMPT, "item", len(flat), files.__getitem__)
        for file in files:
            assert whole.add(file) is None
            assert sliced.add(file) is None
        assert sliced.n_rows == whole.n_rows == len(flat)
        assert sorted(sliced.doubled("twice")) == sorted(whole.doubled("twice"))
        gone = table(rejected, "stream", "offset")
        assert sliced.written_without(gone) == whole.written_without(gone)


def test_of_many_rows_only_a_slice_is_held(monkeypatch):
    monkeypatch.setattr(listed_rows, "ROWS_AT_ONCE", 10)
    held = []
    add = Listed.add
    monkeypatch.setattr(Listed, "add", lambda self, rows: held.append(len(rows)) or add(self, rows))
    rows = table([(3, 10 + n % 20, n) for n in range(100)], "stream", "offset", "item")
    sliced = Sliced(ATTEMPT, "item", 100, lambda _: rows)
    sliced.add(rows)
    assert sliced.doubled("twice") == []
    assert sum(held) == 100
    assert max(held) <= 20


def test_rows_that_the_batch_does_not_have_are_named():
    sliced = Sliced(ATTEMPT, "item", 3, lambda _: pa.table({}))
    assert sliced.add(table([(3, 29, 0), (5, 7, 0), (5, 3, 1)], "stream", "offset", "item")) == (5, 3, 7)
