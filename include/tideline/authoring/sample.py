"""A sample of raw records: the columns that Spark's Kafka reader returns, as one Arrow table."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import RecordContent
from tideline.records.kafka_metadata import headers_as_json
from tideline.records.transforms import KAFKA

RAW = pa.schema(list(KAFKA))
"""The columns of a raw record: topic, partition, offset, timestamp, key, value, headers."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = datetime(2000, 1, 1, tzinfo=UTC)
"""The timestamp of records that come from a file. It is fixed, so that a test gives the same rows each time."""


KeyAndValue = tuple[bytes | None, bytes | None]


def of_values(pipeline: Pipeline, values: Iterable[bytes | KeyAndValue | None]) -> pa.Table:
    """Return records with these values, at the offsets 0, 1, 2... of partition 0 of the pipeline's first topic.

    They have no headers, and a key only if it is given with the value. Their timestamp is 2000-01-01T00:00:00Z. A value
    of None is a tombstone.
    """
    given = [one if isinstance(one, tuple) else (None, one) for one in values]
    topic = pipeline.source.topics[0] if pipeline.source.topics else pipeline.name
    n = len(given)
    columns = {
        "topic": [topic] * n,
        "partition": [0] * n,
        "offset": range(n),
        "timestamp": [_TIMESTAMP] * n,
        "key": [key for key, _ in given],
        "value": [value for _, value in given],
        "headers": [None] * n,
    }
    return pa.table(columns, schema=RAW)


def has_made_up_times(sample: pa.Table) -> bool:
    """Return whether the timestamps of a sample are those of `of_values`, which say nothing about its records."""
    return set(sample.column("timestamp").to_pylist()) <= {_TIMESTAMP}


def of_records(records: Iterable[RecordContent]) -> pa.Table:
    """Return records of a topic, with headers as the Spark job reads them."""
    columns = ("topic", "partition", "offset", "key", "value")
    rows = [
        {
            **{name: getattr(record, name) for name in columns},
            "timestamp": _timestamp(record.timestamp_ms),
            "headers": headers_as_json(record.headers),
        }
        for record in records
    ]
    return pa.Table.from_pylist(rows, schema=RAW)


def _timestamp(milliseconds: int | None) -> datetime | None:
    """Return a timestamp; None if there is none, or if it is of a year that Python cannot hold."""
    try:
        return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def lines(content: bytes, *, keyed: bool = False) -> Sequence[bytes | KeyAndValue]:
    """Split the content of a file into records: one for each line, without its line feed.

    Args:
        content: The content of the file.
        keyed: Whether each line is the key, a tab and the value. Nothing behind the tab is a tombstone, and a line
            without a tab is a value without a key.
    """
    found = content.removesuffix(b"\n").split(b"\n") if content else []
    return [_keyed(line) for line in found] if keyed else found


def _keyed(line: bytes) -> KeyAndValue:
    key, tab, value = line.partition(b"\t")
    return (key, value or None) if tab else (None, line)
