"""A row keeps the bytes of its own record, whatever its transform does and whichever other partitions its task has read."""

import pyarrow as pa
import pytest

from tideline.records.kafka_metadata import as_they_came
from tideline.records.transforms import KAFKA

PLACES = [("orders", 0, 5), ("orders", 0, 6), ("orders", 1, 5), ("returns", 0, 5)]
"""Offsets start again in each partition of each topic."""


def records(places, *, key=lambda place: "/".join(map(str, place)).encode()):
    blank = dict.fromkeys(KAFKA.names)
    rows = [
        blank | dict(zip(("topic", "partition", "offset"), place, strict=True)) | {"key": key(place)}
        for place in places
    ]
    return pa.array(rows, KAFKA)


def rows(places):
    """Return the result of a transform that has dropped the keys."""
    return pa.table({"kafka": records(places, key=lambda _: b"lost")})


@pytest.mark.parametrize(
    "places",
    [PLACES, PLACES[::-1], PLACES[1:], [place for place in PLACES for _ in range(2)], [PLACES[0], PLACES[2]]],
    ids=["as they came", "in another order", "fewer", "several of each", "the same offset of two partitions"],
)
def test_a_row_gets_the_bytes_of_its_own_record_where_partitions_share_offsets(places):
    came = as_they_came(rows(places), records(PLACES))
    assert came.column("kafka").combine_chunks().equals(records(places))


def test_equal_offsets_of_another_partition_are_not_mistaken_for_the_records_read():
    others = [(topic, partition + 7, offset) for topic, partition, offset in PLACES]
    assert as_they_came(rows(others), records(PLACES)).equals(rows(others))


@pytest.mark.parametrize("place", [("orders", 0, None), ("orders", None, 5), (None, 0, 5), ("orders", 0, 99)])
def test_a_row_of_no_record_is_left_for_where_it_is_refused(place):
    assert as_they_came(rows([place]), records(PLACES)).equals(rows([place]))
