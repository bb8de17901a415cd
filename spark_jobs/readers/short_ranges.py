"""Read many short offset ranges with one consumer, in the driver.

Spark's Kafka reader creates a consumer for each partition. Each consumer opens two connections and requests the
metadata of the whole topic. So the cost grows with the square of the number of partitions: 10,000 records over 2,000
partitions took fifteen seconds.

This module uses, over py4j, the Java consumer and the row conversion of Spark's own reader, so records are identical to
the byte. It reports no errors of its own. If a range is not read to its end (not in time, not within the driver's
memory, or because the broker refuses), it is left to Spark's reader, which reports the cause.
"""

# ruff: noqa: SLF001 - PySpark has no public way to its JVM

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import Column, DataFrame, SparkSession, functions

from tideline import job_log
from tideline.ledger.attempts import Range

MAX_BYTES = 32 << 20
"""Once this many bytes of a batch were fetched, the remaining ranges are left. Each broker may send two more responses of at most 8 MiB."""
MAX_SILENCE_S = 10.0
"""After this many seconds without progress, the remaining ranges are left."""
_POLL_MS = 200
_BYTE_ARRAYS = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_CLIENT = "tideline"
_BYTES = ("bytes-consumed-total", "consumer-fetch-manager-metrics", "")
_SETTINGS = {
    "client.id": _CLIENT,
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "key.deserializer": _BYTE_ARRAYS,
    "value.deserializer": _BYTE_ARRAYS,
    # Small, because records behind the end of a range are fetched in vain.
    "max.partition.fetch.bytes": str(64 << 10),
    "fetch.max.bytes": str(8 << 20),
    "max.poll.records": "50000",
    # Otherwise the broker holds a fetch at the end of the log for half a second, and the next group waits behind it.
    "fetch.max.wait.ms": "0",
    # Metrics for the broker and for JMX take a fifth of the CPU time of a consumer that lives for a second.
    "enable.metrics.push": "false",
    "auto.include.jmx.reporter": "false",
}

Place = tuple[str, int]
"""Topic and partition."""


class ReadRanges(NamedTuple):
    """The records that one consumer has read, and the ranges that it has left."""

    records: list[DataFrame]
    """Have the columns of Spark's Kafka reader. Each element is one task, and contains whole ranges only."""
    left: list[Range]
    """The ranges that were not read to their ends. None of their records is in `records`."""


def read(
    spark: SparkSession, security: Mapping[str, str], groups: Sequence[Sequence[Range]], max_bytes: int = MAX_BYTES
) -> ReadRanges:
    """Read ranges into the driver's memory, each group as the records of one task.

    Args:
        spark: The session.
        security: Bootstrap servers, login and isolation level, as `tideline.kafka.settings.spark_settings` gives them.
        groups: At most one range per topic and partition, in all groups together.
        max_bytes: See `MAX_BYTES`.
    """
    records: list[DataFrame] = []
    finished: set[Range] = set()
    cause = "too many bytes, or no answer"
    try:
        with closing(_Reader(spark, security, max_bytes)) as reader:
            for group in groups:
                frame, of_group = reader.read(group)
                records.append(frame)
                finished |= of_group
                if len(of_group) < len(group):
                    break
    except (Py4JError, TypeError) as error:  # py4j raises TypeError for a class that is not on the driver's class path
        # Only the class is printed: the text may quote a setting, such as a password.
        cause = error.java_exception.getClass().getName() if isinstance(error, Py4JJavaError) else type(error).__name__
    left = [piece for group in groups for piece in group if piece not in finished]
    if left:
        job_log.say(f"{len(left)} short ranges are left to Spark's reader: {cause}", level="warning")
    return ReadRanges(records, left)


class _Reader:
    """A consumer in the driver's JVM. A call over py4j takes a tenth of a millisecond, so no call is made per partition or record."""

    def __init__(self, spark: SparkSession, security: Mapping[str, str], max_bytes: int) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._max_bytes = max_bytes
        self._kafka010 = self._jvm.org.apache.spark.sql.kafka010
        self._converters = self._jvm.scala.jdk.javaapi.CollectionConverters
        settings = _SETTINGS | {name.removeprefix("kafka."): value for name, value in security.items()}
        kafka = self._jvm.org.apache.kafka
        self._consumer = kafka.clients.consumer.KafkaConsumer(settings)
        self._bytes = self._consumer.metrics().get(kafka.common.MetricName(*_BYTES, {"client-id": _CLIENT}))
        self._convert = self._kafka010.KafkaRecordToRowConverter().toInternalRowWithHeaders()
        void, long = self._jvm.java.lang.Void.TYPE, self._jvm.java.lang.Long.TYPE
        partition = kafka.common.TopicPartition("", 0).getClass()
        self._seek = self._method("java.util.function.BiConsumer", "seek", void, partition, long)
        self._position = self._method("java.util.function.Function", "position", long, partition)

    def close(self) -> None:
        """Close the consumer and its connections."""
        self._consumer.close(self._jvm.java.time.Duration.ofSeconds(1))

    def read(self, ranges: Iterable[Range]) -> tuple[DataFrame, set[Range]]:
        """Read ranges. Return the records of those that were read to their ends, and the set of these ranges."""
        by_place = {(piece.topic, piece.partition): piece for piece in ranges}
        unread = {place: piece.offsets.start for place, piece in by_place.items()}
        self._assign(unread).forEach(self._seek)
        rows = self._jvm.scala.collection.mutable.ArrayBuffer()
        last_progress = time.monotonic()
        while (
            unread and self._bytes.metricValue() < self._max_bytes and time.monotonic() - last_progress < MAX_SILENCE_S
        ):
            polled = self._consumer.poll(self._jvm.java.time.Duration.ofMillis(_POLL_MS))
            rows.addAll(self._converters.asScala(polled.iterator()).map(self._convert))
            reached = self._positions()
            if reached != unread:
                last_progress = time.monotonic()
            still_unread = {place: offset for place, offset in reached.items() if offset < by_place[place].offsets.end}
            if len(still_unread) < len(unread):
                self._assign(still_unread)  # stop fetching from the other partitions
            unread = still_unread
        finished = {piece for place, piece in by_place.items() if place not in unread}
        return self._frame(rows).where(_within(finished)), finished

    def _assign(self, offsets: Mapping[Place, int]) -> Any:
        """Assign exactly these partitions to the consumer; known ones keep their position. Return `offsets` as a `java.util.Map` by partition."""
        by_topic: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, {})[partition] = offset
        partitions = self._converters.asJava(self._kafka010.JsonUtils.partitionOffsets(json.dumps(by_topic)))
        self._consumer.assign(partitions.keySet())
        return partitions

    def _positions(self) -> dict[Place, int]:
        """Return the consumer's position in each partition that it still reads."""
        assigned = self._consumer.assignment()
        offsets = json.loads(assigned.stream().map(self._position).toList().toString())
        names = re.findall(r"([\w.-]+)-(\d+)", assigned.toString())
        return {(topic, int(partition)): offset for (topic, partition), offset in zip(names, offsets, strict=True)}

    def _method(self, interface: str, name: str, returns: Any, *takes: Any) -> Any:
        """Return a method of the consumer as a Java function that Java's collections can call for each element."""
        invoke, lookup_class = self._jvm.java.lang.invoke, self._jvm.java.lang.Class.forName
        classes = self._spark.sparkContext._gateway.new_array(self._jvm.java.lang.Class, len(takes))
        for number, taken in enumerate(takes):
            classes[number] = taken
        method = invoke.MethodHandles.publicLookup().bind(
            self._consumer, name, invoke.MethodType.methodType(returns, classes)
        )
        return invoke.MethodHandleProxies.asInterfaceInstance(lookup_class(interface), method)

    def _frame(self, rows: Any) -> DataFrame:
        row_class = self._jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow")
        tag = self._jvm.scala.reflect.ClassTag.apply(row_class)
        one_task = self._spark.sparkContext._jsc.sc().parallelize(rows.toSeq(), 1, tag)
        schema = self._kafka010.KafkaRecordToRowConverter.kafkaSchema(True)
        return DataFrame(self._spark._jsparkSession.internalCreateDataFrame(one_task, schema, False), self._spark)


def _within(ranges: Iterable[Range]) -> Column:
    """Return the condition that a record is in one of the ranges. A consumer returns records behind the end of a range as well.

    The end is looked up by topic and partition: with a condition for each of 2,000 partitions, each record would be
    compared with all of them.
    """
    ends: dict[str, list[int | None]] = {}
    for piece in ranges:
        of_topic = ends.setdefault(piece.topic, [])
        of_topic.extend([None] * (piece.partition + 1 - len(of_topic)))
        of_topic[piece.partition] = piece.offsets.end
    by_topic = functions.from_json(functions.lit(json.dumps(ends)), "map<string,array<bigint>>")
    return functions.col("offset") < functions.get(by_topic[functions.col("topic")], functions.col("partition"))
