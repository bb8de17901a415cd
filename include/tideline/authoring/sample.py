"""A sample of raw records: the columns that Spark's Kafka reader returns, as one Arrow table."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import pyarrow as pa

from spark_jobs.records.transforms import KAFKA
from tideline.declaration.pipelines import Pipeline

RAW = pa.schema(list(KAFKA))
"""The columns of a raw record: topic, partition, offset, timestamp, key, value, headers."""
_TIMESTAMP = datetime(2000, 1, 1, tzinfo=UTC)
"""The timestamp of records that come from a file. It is fixed, so that a test gives the same rows each time."""


def of_values(pipeline: Pipeline, values: Iterable[bytes | None]) -> pa.Table:
    """Return records with these values, at the offsets 0, 1, 2... of partition 0 of the pipeline's first topic.

    They have no key and no headers, and their timestamp is 2000-01-01T00:00:00Z. None is a tombstone.
    """
    given = list(values)
    topic = pipeline.source.topics[0] if pipeline.source.topics else pipeline.name
    n = len(given)
    columns = {
        "topic": [topic] * n,
        "partition": [0] * n,
        "offset": range(n),
        "timestamp": [_TIMESTAMP] * n,
        "key": [None] * n,
        "value": given,
        "headers": [None] * n,
    }
    return pa.table(columns, schema=RAW)


def lines(content: bytes) -> Sequence[bytes]:
    """Split the content of a file into the values of records: one for each line, without its line feed."""
    return content.removesuffix(b"\n").split(b"\n") if content else []
