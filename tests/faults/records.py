"""The records that all levels load, and what becomes of each: both are functions of incarnation, partition and offset, so that nobody keeps a copy.

The oracle is written from the records, and never from the code that is checked.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from functools import cache
from uuid import UUID

from faults.checker.facts import FILTERED, REJECTED, WRITTEN, Expected, Record

COLUMNS = {"id": "bigint", "name": "string", "copies": "int", "price": "decimal(12,4)"}
"""What is declared of a value."""
OUTPUT = ("id", "item", "name", "price")
"""The columns whose values `Expected.rows` has."""
TARGET = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.output (
    id bigint NOT NULL,
    item integer NOT NULL,
    name text,
    price numeric(12, 4) CHECK (price < 1000),
    kafka_topic_id uuid,
    kafka_partition integer,
    kafka_offset bigint,
    tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset, item)
);
"""
REFUSED = "nobody"
"""The name that a transform refuses until it is corrected."""
TRANSFORM = """\
import pyarrow as pa, pyarrow.compute as pc

def records(batch):
    if {refuses} and pc.any(pc.equal(batch["name"], "nobody")).as_py():
        raise ValueError("nobody is no name")
    copies = batch["copies"].to_pylist()
    rows = batch.take(pa.array([row for row, n in enumerate(copies) for _ in range(n)], pa.int64()))
    item = pa.array([item for n in copies for item in range(n)], pa.int32())
    return rows.drop_columns(["copies"]).append_column("item", item)
"""
"""`records` makes as many rows of a record as `copies` says; put whether it `refuses` a name in."""
_EPOCH_MS = int(datetime(2026, 1, 2, tzinfo=UTC).timestamp() * 1000)
_FAR_MS = int(datetime(2099, 1, 1, tzinfo=UTC).timestamp() * 1000)
_MINUTE_MS = 60_000
ODD_CLOCKS = 100
"""From this incarnation on producers give their records odd timestamps."""


Share = tuple[int, int]
"""Of several pipelines that write one table: the number of this one, and how many they are. Each filters out what is not its own."""
WHOLE: Share = (0, 1)


def is_of(share: Share, offset: int) -> bool:
    """Whether the pipeline with this share keeps the record at an offset."""
    number, of = share
    return offset % of == number


class Fate(StrEnum):
    """What a record is like."""

    GOOD = "good"
    DOUBLE = "double"
    """Two rows come out of it."""
    FILTERED = "filtered"
    """No row comes out of it."""
    BROKEN = "broken"
    """Cannot be decoded."""
    REFUSED = "refused"
    """Cannot be transformed until the transform is corrected."""
    DEAR = "dear"
    """The table does not take it."""
    MARKER = "marker"
    """No record: the offset was taken by the end of a transaction."""


_FATES = (
    Fate.GOOD, Fate.FILTERED, Fate.GOOD, Fate.DOUBLE, Fate.BROKEN, Fate.GOOD, Fate.REFUSED, Fate.GOOD, Fate.DEAR, Fate.GOOD, Fate.GOOD,
)  # fmt: skip


def is_transactional(incarnation: int) -> bool:
    """Whether the producers of this incarnation use transactions: then offsets are missing."""
    return incarnation % 2 == 0


@cache
def fate(incarnation: int, partition: int, offset: int) -> Fate:
    """What stands at an offset."""
    if is_transactional(incarnation) and (offset + partition) % 4 == 3:
        return Fate.MARKER
    return _FATES[(incarnation * 5 + partition * 7 + offset * 3 + offset // 11) % len(_FATES)]


def timestamp_ms(incarnation: int, partition: int, offset: int) -> int:
    """When the record says that it was written: offset n in minute n, but where producers have odd clocks."""
    if incarnation < ODD_CLOCKS:
        return _EPOCH_MS + offset * _MINUTE_MS
    match (partition * 3 + offset * 5 + incarnation) % 8:
        case 0:
            return _FAR_MS + offset
        case 1:
            return offset
        case 2 | 3:
            return _EPOCH_MS + max(0, offset - 7) * _MINUTE_MS
        case 4:
            return _EPOCH_MS + (offset + 9) * _MINUTE_MS
        case _:
            return _EPOCH_MS + offset * _MINUTE_MS


def record_at(incarnation: int, partition: int, offset: int) -> Record | None:
    """The record at an offset; None where it is a transaction's marker."""
    return None if fate(incarnation, partition, offset) is Fate.MARKER else _record(incarnation, partition, offset)


@cache
def _record(incarnation: int, partition: int, offset: int) -> Record:
    like = fate(incarnation, partition, offset)
    number = _number(incarnation, partition, offset)
    name = REFUSED if like is Fate.REFUSED else f"name {number}"
    copies = {Fate.DOUBLE: 2, Fate.FILTERED: 0}.get(like, 1)
    price = "5000.5" if like is Fate.DEAR else "1.5"
    value = f'{{"id": {number}, "name": "{name}", "copies": {copies}, "price": {price}}}'.encode()
    if like is Fate.BROKEN:
        value = value[:-3]
    return Record(
        offset,
        timestamp_ms=timestamp_ms(incarnation, partition, offset),
        key=b"%d" % number if offset % 3 else None,
        value=value,
        headers=(("source", b"\x00\xff%d" % number), ("empty", None)) if offset % 4 == 0 else None,
    )


def _number(incarnation: int, partition: int, offset: int) -> int:
    return (incarnation * 100 + partition) * 1_000_000 + offset


def records(incarnation: int, partition: int, start: int, end: int) -> Iterator[Record]:
    """The records of [start, end), ascending."""
    for offset in range(start, end):
        record = record_at(incarnation, partition, offset)
        if record is not None:
            yield record


@cache
def expected(
    incarnation: int, partition: int, offset: int, *, corrected: bool, share: Share = WHOLE, unique: bool = False
) -> Expected:
    """What may have become of the record there.

    Args:
        incarnation: Of the topic.
        partition: Where the record is.
        offset: The same.
        corrected: Whether somebody has corrected the transform, before or after it was loaded.
        share: Which records are the pipeline's.
        unique: Whether the table has one row at most for an id.
    """
    like = fate(incarnation, partition, offset)
    if like is not Fate.BROKEN and not is_of(share, offset):
        return Expected(frozenset({FILTERED}))
    name = REFUSED if like is Fate.REFUSED else f"name {_number(incarnation, partition, offset)}"
    row = (_number(incarnation, partition, offset), 0, name, Decimal("1.5000"))
    match like:
        case Fate.GOOD:
            return Expected(frozenset({WRITTEN}), (row,))
        case Fate.DOUBLE if not unique:
            return Expected(frozenset({WRITTEN}), (row, (row[0], 1, *row[2:])))
        case Fate.FILTERED:
            return Expected(frozenset({FILTERED}))
        case Fate.REFUSED if corrected:
            return Expected(frozenset({WRITTEN, REJECTED}), (row,))
        case _:
            return Expected(frozenset({REJECTED}))


def incarnation_of(topic_id: UUID) -> int:
    """The number of an incarnation: its topic id is made of it."""
    return topic_id.int
