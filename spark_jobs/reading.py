"""Read exactly the offset ranges of a batch from Kafka. Chooses nothing: the ledger has chosen."""

import json
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession, functions

from tideline.ledger.attempts import Range

# Spark's defaults fetch 500 records at a time into a 64 KiB socket buffer, and ask the broker for its offsets after each fetch.
# These more than double the rate (measured in docs/performance.md).
_FETCHING = {
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(4 << 20),
    # At the end of the log the consumer's next fetch waits this long at the broker, and what Spark asks about offsets waits behind it on
    # the same connection: with the default half a second for each partition.
    "kafka.fetch.max.wait.ms": "10",
}


def reader_options(security: Mapping[str, str], ranges: Iterable[Range], *, split_records: int) -> dict[str, str]:
    """The options of Spark's Kafka reader for explicit ranges.

    `assign` and not `subscribe`: with the latter a partition added since the plan fails the read. Both ends are numbers, so nothing is
    decided at read time, and `failOnDataLoss` turns offsets that are gone into an error.

    Args:
        security: Bootstrap servers, login and isolation level, as `tideline.kafka_settings.spark_settings` gives them.
        ranges: At most one per topic and partition.
        split_records: Most offsets that one task reads. By default a partition is one task, and a long one keeps one core busy while the
            others wait.
    """
    assigned: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for piece in ranges:
        assigned.setdefault(piece.topic, []).append(piece.partition)
        starts.setdefault(piece.topic, {})[str(piece.partition)] = piece.offsets.start
        ends.setdefault(piece.topic, {})[str(piece.partition)] = piece.offsets.end
    return {
        **_FETCHING,
        **security,
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "maxRecordsPerPartition": str(split_records),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        # A range whose end is not there (yet) makes the reader wait this long before it fails; the default is two minutes.
        "kafkaConsumer.pollTimeoutMs": "30000",
    }


def read(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The records of a batch, lazily. Every action reads Kafka again, so give it one action only.

    Headers become JSON text, null where there are none: after each row Spark measures its Arrow batch, and for a column of lists that takes as
    long as the batch has rows. With a list of headers a load took ten times as long.
    """
    records = spark.read.format("kafka").options(**options).load()
    return records.select(
        "topic", "partition", "offset", "timestamp", "key", "value", functions.to_json("headers").alias("headers")
    )
