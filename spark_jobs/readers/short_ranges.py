"""Read many short offset ranges with one consumer, in the driver.

Spark's Kafka reader makes a consumer for each partition. Each of them opens two connections and asks for the metadata of the whole topic, so that the
cost grows with the square of the number of partitions: 10,000 records over 2,000 partitions took fifteen seconds.

Uses, over py4j, the Java consumer and the conversion to rows of Spark's own reader: a record is to the byte what that reader makes of it. Decides
nothing: a range that is not read to its end (in time, within the driver's memory, or because the broker refuses) is left to Spark's reader, which
says why.
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

from tideline.ledger.attempts import Range

MAX_BYTES = 32 << 20
"""Once so much was fetched of a batch, the rest is left. Two answers of each broker, of at most 8 MiB, may come on top."""
MAX_SILENCE_S = 10.0
"""Without a record for so long, the rest is left."""
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
    # What lies behind the end of a range is fetched for nothing.
    "max.partition.fetch.bytes": str(64 << 10),
    "fetch.max.bytes": str(8 << 20),
    "max.poll.records": "50000",
    # At the end of the log the broker would keep a fetch for half a second, and the next group waits behind it.
    "fetch.max.wait.ms": "0",
    # Metrics for the broker and for JMX take a fifth of the CPU of a consumer that lives for a second.
    "enable.metrics.push": "false",
    "auto.include.jmx.reporter": "false",
}

Place = tuple[str, int]
"""Topic and partition."""


class Found(NamedTuple):
    """What one consumer has read."""

    records: list[DataFrame]
    """With the columns of Spark's Kafka reader. Each is one task, which has its ranges as a whole."""
    left: list[Range]
    """The ranges that were not read to their ends. None of their records is in `records`."""


def read(
    spark: SparkSession, security: Mapping[str, str], groups: Sequence[Sequence[Range]], max_bytes: int = MAX_BYTES
) -> Found:
    """Read ranges into the driver's memory, each group as the records of one task.

    Args:
        spark: The session.
        security: Bootstrap servers, login and isolation level, as `tideline.kafka.settings.spark_settings` gives them.
        groups: At most one range per topic and partition, in all groups together.
        max_bytes: As `MAX_BYTES`.
    """
    records: list[DataFrame] = []
    finished: set[Range] = set()
    why = "too many bytes, or no answer"
    try:
        with closing(_Reader(spark, security, max_bytes)) as reader:
            for group in groups:
                frame, of_group = reader.read(group)
                records.append(frame)
                finished |= of_group
                if len(of_group) < len(group):
                    break
    except (Py4JError, TypeError) as error:  # py4j's TypeError: a class that is not on the driver's class path
        # The class only: the text may quote a setting.
        why = error.java_exception.getClass().getName() if isinstance(error, Py4JJavaError) else type(error).__name__
    left = [piece for group in groups for piece in group if piece not in finished]
    if left:
        print(f"{len(left)} short ranges are left to Spark's reader: {why}", flush=True)
    return Found(records, left)


class _Reader:
    """A consumer in the driver's JVM. A call over py4j takes a tenth of a millisecond, so that none is made per partition or record."""

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
        """Leave the brokers."""
        self._consumer.close(self._jvm.java.time.Duration.ofSeconds(1))

    def read(self, ranges: Iterable[Range]) -> tuple[DataFrame, set[Range]]:
        """The records of those ranges that were read to their ends, and which ranges these are."""
        by_place = {(piece.topic, piece.partition): piece for piece in ranges}
        unread = {place: piece.offsets.start for place, piece in by_place.items()}
        self._assign(unread).forEach(self._seek)
        rows = self._jvm.scala.collection.mutable.ArrayBuffer()
        heard = time.monotonic()
        while unread and self._bytes.metricValue() < self._max_bytes and time.monotonic() - heard < MAX_SILENCE_S:
            polled = self._consumer.poll(self._jvm.java.time.Duration.ofMillis(_POLL_MS))
            rows.addAll(self._converters.asScala(polled.iterator()).map(self._convert))
            reached = self._positions()
            if reached != unread:
                heard = time.monotonic()
            still_unread = {place: offset for place, offset in reached.items() if offset < by_place[place].offsets.end}
            if len(still_unread) < len(unread):
                self._assign(still_unread)  # so that nothing more is fetched of the others
            unread = still_unread
        finished = {piece for place, piece in by_place.items() if place not in unread}
        return self._frame(rows).where(_within(finished)), finished

    def _assign(self, offsets: Mapping[Place, int]) -> Any:
        """Read these partitions and no others, each from where it was; returns a `java.util.Map` of partitions and `offsets`."""
        by_topic: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, {})[partition] = offset
        partitions = self._converters.asJava(self._kafka010.JsonUtils.partitionOffsets(json.dumps(by_topic)))
        self._consumer.assign(partitions.keySet())
        return partitions

    def _positions(self) -> dict[Place, int]:
        """Where the consumer stands in each partition that it still reads."""
        assigned = self._consumer.assignment()
        offsets = json.loads(assigned.stream().map(self._position).toList().toString())
        names = re.findall(r"([\w.-]+)-(\d+)", assigned.toString())
        return {(topic, int(partition)): offset for (topic, partition), offset in zip(names, offsets, strict=True)}

    def _method(self, interface: str, name: str, returns: Any, *takes: Any) -> Any:
        """A method of the consumer as one that Java's collections can call for each of their elements."""
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
    """Whether a record is of one of the ranges: a consumer returns what lies behind an end as well.

    Looked up by topic and partition, since a condition for each of 2,000 partitions would be tried on each record.
    """
    ends: dict[str, list[int | None]] = {}
    for piece in ranges:
        of_topic = ends.setdefault(piece.topic, [])
        of_topic.extend([None] * (piece.partition + 1 - len(of_topic)))
        of_topic[piece.partition] = piece.offsets.end
    by_topic = functions.from_json(functions.lit(json.dumps(ends)), "map<string,array<bigint>>")
    return functions.col("offset") < functions.get(by_topic[functions.col("topic")], functions.col("partition"))
