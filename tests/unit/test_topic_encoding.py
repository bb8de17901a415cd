"""Rows become records of a topic: what cannot be one is refused, and items sort as they are."""

import pyarrow as pa
import pytest

from tideline.formats.encoder import UnencodableError
from tideline.sinks.kafka.encoding import Records

KAFKA = pa.array([{"offset": 0}] * 3)


def encoded(columns, *, key=(), item=None, headers=(), max_bytes=1_000, needs_key=False):
    names = [name for name in columns if name not in {*key, *headers, item}]
    records = Records(key=key, headers=headers, item=item, value=tuple(names), max_bytes=max_bytes, needs_key=needs_key)
    return records.encode(pa.table({"kafka": KAFKA[: len(next(iter(columns.values())))], **columns}))


def test_a_compacted_topic_takes_no_record_without_a_key():
    assert encoded({"k": ["a", None], "v": [1, 2]}, key=("k",))["key"].to_pylist() == [b"a", None]
    with pytest.raises(UnencodableError, match="expected a key, which a compacted topic requires, found null"):
        encoded({"k": ["a", None], "v": [1, 2]}, key=("k",), needs_key=True)


@pytest.mark.parametrize("where", ["k", "v", "h"])
def test_a_record_larger_than_the_topic_takes_is_refused_before_it_fails_the_whole_transaction(where):
    columns = {name: ["x" * 600 if name == where else "x"] for name in ("k", "v", "h")}
    with pytest.raises(UnencodableError, match="has more bytes than the 1000 that the topic takes"):
        encoded(columns, key=("k",), headers=("h",))
    encoded(columns, key=("k",), headers=("h",), max_bytes=1_200)


def test_an_item_that_is_null_orders_nothing():
    with pytest.raises(UnencodableError, match="expected a value that orders the rows of the record, found null"):
        encoded({"line": pa.array([1, None]), "v": [1, 2]}, item="line")


def test_items_sort_as_their_numbers_do():
    numbers = [10, -1, 9, 2**62, -(2**62), 0]
    found = encoded({"line": pa.array(numbers[:3]), "v": [1, 2, 3]}, item="line")
    more = encoded({"line": pa.array(numbers[3:]), "v": [1, 2, 3]}, item="line")
    order = [*found["item_order"].to_pylist(), *more["item_order"].to_pylist()]
    assert [number for _, number in sorted(zip(order, numbers, strict=True))] == sorted(numbers)
    assert found["item"].to_pylist() == ["10", "-1", "9"]
