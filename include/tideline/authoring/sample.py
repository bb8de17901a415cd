"""A sample of raw records: the columns that Spark's Kafka reader returns, as one Arrow table."""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from tideline.declaration import Source
from tideline.declaration.pipelines import Pipeline
from tideline.declaration.source import Key, Value
from tideline.domain.facts import RecordContent
from tideline.errors import FatalError
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


def lines(content: bytes, source: Source) -> Sequence[bytes | KeyAndValue]:
    """Split the content of a file into records: one for each line, without its line feed.

    If the pipeline decodes keys, each line is the key, a tab and the value. Nothing behind the tab is a tombstone, and a
    line without a tab is a value without a key. Bytes that are no text, as those of Avro and Protobuf, are in base64.

    Raises:
        FatalError: A line is not base64 where it must be.
    """
    found = content.removesuffix(b"\n").split(b"\n") if content else []
    return [_record(line, number, source) for number, line in enumerate(found, start=1)]


def _record(line: bytes, number: int, source: Source) -> bytes | KeyAndValue:
    if source.key is None:
        return _bytes(line, number, source.value)
    key, tab, value = line.partition(b"\t")
    if not tab:
        return None, _bytes(line, number, source.value)
    return _bytes(key, number, source.key), _bytes(value, number, source.value) if value else None


def _bytes(text: bytes, number: int, section: Key | Value) -> bytes:
    if not section.is_binary:
        return text
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise FatalError(
            f"line {number}: expected base64, as the format {section.format} is no text, found something else: {error}",
            next_step="encode each record: tideline sample PIPELINE --values prints them so",
            entry="records-with-a-schema",
        ) from error


def on_one_line(part: bytes, section: Key | Value, breaks: bytes) -> bytes:
    """Return a key or a value as `lines` reads it: in base64, or with a space for what would break the line."""
    return b64encode(part) if section.is_binary else re.sub(breaks, b" ", part)
