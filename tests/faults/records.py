"""Define the records that all levels load, and the expected outcome of each.

Both are functions of incarnation, partition and offset, so no copy of the records has to be kept. The expected
outcomes are derived from the records, never from the code under test.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from functools import cache
from uuid import UUID

from faults.checker.facts import FILTERED, REJECTED, WRITTEN, Expected, Record
from faults.visit_rules import REFUSED

COLUMNS = {"id": "bigint", "name": "string", "copies": "int", "price": "decimal(12,4)"}
"""The declared columns of a value."""
OUTPUT = ("id", "item", "name", "price")
"""The columns of `Expected.rows`."""
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
UPSERT_TARGET = (
    TARGET.replace("kafka_topic_id, kafka_partition, kafka_offset, item)", "id, item)")
    .replace("uuid,", "uuid NOT NULL,")
    .replace("kafka_partition integer,", "kafka_partition integer NOT NULL,")
    .replace("kafka_offset bigint,", "kafka_offset bigint NOT NULL,")
)
"""The table of a pipeline that keeps the newest record of each key."""
TRANSFORM = """\
import pyarrow as pa, pyarrow.compute as pc

def records(batch):
    if {refuses} and pc.any(pc.equal(batch["name"], "unnamed")).as_py():
        raise ValueError("unnamed is no name")
    copies = batch["copies"].to_pylist()
    rows = batch.take(pa.array([row for row, n in enumerate(copies) for _ in range(n)], pa.int64()))
    item = pa.array([item for n in copies for item in range(n)], pa.int32())
    return rows.drop_columns(["copies"]).append_column("item", item)
"""
"""The text of transform.py. `records` makes `copies` rows of each record. The placeholder `refuses` says whether the
transform refuses the name."""
STATEFUL_TRANSFORM = """\
from datetime import timedelta

import pyarrow.compute as pc

from tideline.processors import Processor


def records(batch):
    if {refuses} and pc.any(pc.equal(batch["name"], "unnamed")).as_py():
        raise ValueError("unnamed is no name")
    number = batch["id"]
    of_three = pc.subtract(number, pc.multiply(pc.divide(number, 3), 3))
    return batch.append_column("lane", pc.add(pc.multiply(pc.divide(number, 1_000_000), 10), of_three))


class Runs(Processor):
    rows = dict(id="bigint", item="int", name="string", price="decimal(12,4)")

    def on_record(self, key, record, state):
        value = state.value or dict(first=record["id"], records=0)
        value["records"] += 1
        state.value, state.expires_at = value, record["kafka"]["timestamp"] + timedelta(minutes=4)
        if record["price"] >= 1000:
            raise ValueError("too expensive")
        for item in range(record["copies"]):
            yield dict(id=record["id"], item=item, name=record["name"], price=record["price"])

    def on_expiry(self, key, state):
        yield dict(id=state.value["first"], item=-1, name="a run", price=state.value["records"])


processor = Runs()
"""
"""The text of transform.py with a processor. It gives the same rows of each record, and one row with the item -1 when a
key, of which each partition has three, has had no record for four minutes. A record that is too expensive is refused
after the state was changed."""
_EPOCH_MS = int(datetime(2026, 1, 2, tzinfo=UTC).timestamp() * 1000)
_FAR_MS = int(datetime(2099, 1, 1, tzinfo=UTC).timestamp() * 1000)
_MINUTE_MS = 60_000
ODD_CLOCKS = 100
"""From this incarnation on, producers give their records odd timestamps."""


Share = tuple[int, int]
"""Which records a pipeline keeps if several pipelines write to one table: its own number, and the number of
pipelines. Each pipeline filters out the records of the others."""
WHOLE: Share = (0, 1)


def is_in_share(share: Share, offset: int) -> bool:
    """Return whether a pipeline with this share keeps the record at an offset."""
    number, of = share
    return offset % of == number


class Fate(StrEnum):
    """The kinds of records."""

    GOOD = "good"
    DOUBLE = "double"
    """Gives two rows."""
    FILTERED = "filtered"
    """Gives no row."""
    BROKEN = "broken"
    """Cannot be decoded."""
    REFUSED = "refused"
    """Cannot be transformed until the transform is corrected."""
    TOO_EXPENSIVE = "too expensive"
    """The target table refuses it: its price violates a check."""
    MARKER = "marker"
    """Not a record: the offset belongs to a transaction marker."""


_FATES = (
    Fate.GOOD, Fate.FILTERED, Fate.GOOD, Fate.DOUBLE, Fate.BROKEN, Fate.GOOD, Fate.REFUSED, Fate.GOOD, Fate.TOO_EXPENSIVE, Fate.GOOD, Fate.GOOD,
)  # fmt: skip


def is_transactional(incarnation: int) -> bool:
    """Return whether the producers of this incarnation use transactions. Then some offsets hold no record."""
    return incarnation % 2 == 0


@cache
def fate(incarnation: int, partition: int, offset: int) -> Fate:
    """Return the kind of the record at an offset."""
    if is_transactional(incarnation) and (offset + partition) % 4 == 3:
        return Fate.MARKER
    return _FATES[(incarnation * 5 + partition * 7 + offset * 3 + offset // 11) % len(_FATES)]


def timestamp_ms(incarnation: int, partition: int, offset: int) -> int:
    """Return the timestamp of a record in milliseconds: minute n for offset n, except for producers with odd clocks."""
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
    """Return the record at an offset; None for a transaction marker."""
    return None if fate(incarnation, partition, offset) is Fate.MARKER else _record(incarnation, partition, offset)


@cache
def _record(incarnation: int, partition: int, offset: int) -> Record:
    kind = fate(incarnation, partition, offset)
    number = _number(incarnation, partition, offset)
    name = REFUSED if kind is Fate.REFUSED else f"name {number}"
    copies = {Fate.DOUBLE: 2, Fate.FILTERED: 0}.get(kind, 1)
    price = "5000.5" if kind is Fate.TOO_EXPENSIVE else "1.5"
    value = f'{{"id": {number}, "name": "{name}", "copies": {copies}, "price": {price}}}'.encode()
    if kind is Fate.BROKEN:
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
    """Yield the records of [start, end), in ascending order of offsets."""
    for offset in range(start, end):
        record = record_at(incarnation, partition, offset)
        if record is not None:
            yield record


@cache
def expected(
    incarnation: int, partition: int, offset: int, *, corrected: bool, share: Share = WHOLE, unique: bool = False
) -> Expected:
    """Return the allowed outcomes of a record, and its rows if it is written.

    Args:
        incarnation: The incarnation of the topic.
        partition: The partition of the record.
        offset: The offset of the record.
        corrected: Whether the transform has been corrected, before or after the record was loaded.
        share: Which records the pipeline keeps.
        unique: Whether the table allows at most one row for an id.
    """
    kind = fate(incarnation, partition, offset)
    if kind is not Fate.BROKEN and not is_in_share(share, offset):
        return Expected(frozenset({FILTERED}))
    name = REFUSED if kind is Fate.REFUSED else f"name {_number(incarnation, partition, offset)}"
    row = (_number(incarnation, partition, offset), 0, name, Decimal("1.5000"))
    match kind:
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


def is_folded(incarnation: int, partition: int, offset: int, *, rejected: bool) -> bool:
    """Return whether a processor folds the record at an offset; `rejected` says whether it is among the rejects, which
    depends on the time for one whose transform was corrected."""
    kind = fate(incarnation, partition, offset)
    return kind not in {Fate.MARKER, Fate.BROKEN, Fate.TOO_EXPENSIVE} and not (kind is Fate.REFUSED and rejected)


def incarnation_of(topic_id: UUID) -> int:
    """Return the number of an incarnation, from which its topic id was made."""
    return topic_id.int
