"""The exchange of records between the tasks of a stateful batch: no record is lost, and those of a key come together and in order."""

from itertools import chain
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.records.transforms import KAFKA
from tideline.state import buckets
from tideline.state.arrow_records import KEY, STREAM
from tideline.state.buckets import BUCKET, FIRST, PIECE, Buckets

SCHEMA = pa.schema([("n", pa.int64()), ("kafka", pa.struct(list(KAFKA))), (KEY, pa.string()), (STREAM, pa.int64())])
N_TASKS = 3


def records(stream, offsets, *, key="user-{}", n_keys=7, size=0):
    """Return the keyed table of some records of a stream."""
    rows = [
        {
            "n": offset,
            KEY: key.format(offset % n_keys),
            STREAM: stream,
            "kafka": {"topic": "clicks", "partition": stream, "offset": offset, "value": b"x" * size},
        }
        for offset in offsets
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def exchanged(divided, tasks):
    """Return what each task that folds gets from the tasks that read: its buckets, each a list of tables."""
    packed = pa.Table.from_batches(chain.from_iterable(map(divided.packed, tasks)), schema=buckets.SCHEMA)
    parts = [[] for _ in range(N_TASKS)]
    for row in range(len(packed)):
        parts[packed.column(BUCKET)[row].as_py() % N_TASKS].append(row)
    tables = [
        packed.take(pa.array(rows, pa.int64())).sort_by([(name, "ascending") for name in (BUCKET, STREAM, FIRST)])
        for rows in parts
    ]
    return [[list(found) for found in divided.unpacked([table])] for table in tables]


def places(tables):
    """Return (key, stream, offset) of each record, in order."""
    return [(row[KEY], row[STREAM], row["kafka"]["offset"]) for table in tables for row in table.to_pylist()]


@settings(max_examples=60)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(1, 9), st.integers(1, 25), st.randoms())
def test_every_record_comes_once_and_those_of_a_key_in_one_task_in_order(lengths, most_keys, n_keys, random: Random):
    """However streams are cut into tasks and tables, in whatever order the tasks end."""
    tasks, ends = [], {}
    for number, length in enumerate(lengths):
        stream = number % 3
        start = ends.get(stream, 0)
        ends[stream] = start + 2 * length  # a transaction marker after each record
        offsets = [*range(start, ends[stream], 2)]
        cut = random.randint(0, length)
        tasks.append([records(stream, part, n_keys=n_keys) for part in (offsets[:cut], offsets[cut:]) if part])
    sent = places(chain.from_iterable(tasks))
    random.shuffle(tasks)
    divided = Buckets.for_records(SCHEMA, len(sent), n_tasks=N_TASKS, most_keys=most_keys)
    found = [[places(tables) for tables in task] for task in exchanged(divided, tasks)]
    assert sorted(chain.from_iterable(chain.from_iterable(found))) == sorted(sent)
    for key in {key for key, _, _ in sent}:
        [of_key] = [
            [place for place in of_bucket if place[0] == key]
            for task in found
            for of_bucket in task
            if any(place[0] == key for place in of_bucket)
        ]
        assert of_key == sorted(of_key)


def test_what_comes_out_is_what_went_in_byte_by_byte():
    divided = Buckets(count=1, schema=SCHEMA)
    sent = records(0, range(50), size=30)
    [_, _, [[found]]] = sorted(exchanged(divided, [[sent]]), key=len)
    assert found.equals(sent)


def test_columns_of_another_width_are_brought_into_the_declared_form():
    divided = Buckets(count=1, schema=SCHEMA)
    narrow = records(0, range(5)).set_column(0, "n", pa.array(range(5), pa.int16()))
    [packed] = divided.packed([narrow])
    [[found]] = [list(tables) for tables in divided.unpacked([pa.Table.from_batches([packed])])]
    assert found.schema == SCHEMA


def test_tables_without_records_make_no_piece():
    """As where all records of an Arrow batch were rejected."""
    divided = Buckets(count=1, schema=SCHEMA)
    assert list(divided.packed([SCHEMA.empty_table()])) == []
    [packed] = divided.packed([SCHEMA.empty_table(), records(0, range(5)), SCHEMA.empty_table()])
    assert len(packed) == 1


def test_a_hot_key_comes_in_parts_that_fit_into_memory():
    divided = Buckets(count=N_TASKS, schema=SCHEMA)
    sent = [records(0, range(start, start + 20_000), n_keys=1) for start in range(0, 120_000, 20_000)]
    [[tables]] = [task for task in exchanged(divided, [sent]) if task]
    assert {len(table) for table in tables} == {10_000}
    assert [offset for _, _, offset in places(tables)] == [*range(120_000)]


def test_large_records_come_in_small_tables_both_ways():
    divided = Buckets(count=N_TASKS, schema=SCHEMA)
    sent = records(0, range(40), n_keys=1, size=1 << 20)
    packed = [*divided.packed([sent])]
    assert max(len(piece.as_py()) for batch in packed for piece in batch.column(PIECE)) < 18 << 20
    [tables] = [list(tables) for tables in divided.unpacked([pa.Table.from_batches(packed)])]
    assert max(table.nbytes for table in tables) < 10 << 20
    assert sum(map(len, tables)) == 40


def test_pieces_that_overlap_are_refused():
    """They would be folded in another order than that of their offsets."""
    divided = Buckets(count=1, schema=SCHEMA)
    packed = [*divided.packed([records(0, range(0, 10, 2))]), *divided.packed([records(0, range(1, 10, 2))])]
    with pytest.raises(AssertionError, match="do not come in order: offset 1 after 8"):
        [list(tables) for tables in divided.unpacked([pa.Table.from_batches(packed)])]


def test_each_task_has_as_many_buckets_as_hold_its_keys():
    assert Buckets.for_records(SCHEMA, 500_000, n_tasks=4, most_keys=4096).count == 124
    assert Buckets.for_records(SCHEMA, 0, n_tasks=4, most_keys=4096).count == 4
