"""The records that rows come from: the struct column `kafka`, out of the reader and through a transform. Runs in the executors' Python."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.records.transforms import KAFKA
from tideline.errors import FatalError

_TOLD = pa.scalar(datetime(1900, 1, 1, tzinfo=UTC), KAFKA.field("timestamp").type)
"""Earlier timestamps pass through calendars and zones of the JVM that change them: by minutes, before 1582 by days, and not always so that it could
be undone."""
_COORDINATES = ("topic", "partition", "offset")


def kafka_column(batch: pa.RecordBatch) -> pa.StructArray:
    """The columns of Spark's Kafka reader as the one struct column that transforms know; a timestamp that nobody can tell is null."""
    parts = {
        part.name: column if (column := batch.column(part.name)).type == part.type else column.cast(part.type)
        for part in KAFKA
    }
    untold = pc.less(parts["timestamp"], _TOLD)
    if pc.any(untold).as_py():
        parts["timestamp"] = pc.if_else(untold, None, parts["timestamp"])
    return pa.StructArray.from_arrays(list(parts.values()), fields=list(KAFKA))


def as_they_came(rows: pa.Table, raw: pa.StructArray) -> pa.Table:
    """The rows with key, value, headers and timestamp of their records, whatever a transform has made of them: a reject is kept to the byte."""
    kafka = rows.column("kafka").combine_chunks()
    if all(kafka.field(name).equals(raw.field(name)) for name in _COORDINATES):
        came = raw
    else:
        # By all three: a task reads several partitions, which have the same offsets.
        places = pc.index_in(_coordinates(kafka), value_set=_coordinates(raw), skip_nulls=True)
        if places.null_count:
            return rows  # of other records, which is refused where they are stored
        came = raw.take(places)
    return rows.set_column(rows.schema.get_field_index("kafka"), "kafka", came)


def _coordinates(kafka: pa.StructArray) -> pa.Array:
    """Topic, partition and offset as one text, which Arrow can look up; null where one of them is."""
    return pc.binary_join_element_wise(*(kafka.field(name).cast(pa.string()) for name in _COORDINATES), "/")


def stream_ids(kafka: pa.StructArray, streams: Mapping[tuple[str, int], int]) -> pa.Array:
    """The stream id of each row.

    Raises:
        FatalError: A row names a topic and partition that the batch does not read, or no offset.
    """
    if kafka.field("offset").null_count:
        raise FatalError(
            "the transform returned a row without an offset",
            next_step="let transform.py give the column `kafka` on as it came",
            entry="transform",
        )
    known = sorted(streams)
    topics, partitions = (pa.array(part) for part in zip(*known, strict=True))
    names = topics.unique()
    places = _places(topics, partitions.cast(pa.int32()), names)
    ids = pc.index_in(_places(kafka.field("topic"), kafka.field("partition"), names), value_set=places, skip_nulls=True)
    if ids.null_count:
        stranger = kafka[pc.index(ids.is_null(), True).as_py()].as_py()
        raise FatalError(
            f"the transform returned a row of {stranger['topic']}/{stranger['partition']}, which the batch does not read",
            next_step="let transform.py give the column `kafka` on as it came",
            entry="transform",
        )
    return pa.array([streams[place] for place in known], pa.int64()).take(ids)


def _places(topic: pa.Array, partition: pa.Array, names: pa.Array) -> pa.Array:
    """Topic and partition as one number each, which Arrow can look up; null where the topic is none of `names`."""
    number = pc.shift_left(pc.index_in(topic, value_set=names, skip_nulls=True).cast(pa.int64()), 32)
    return pc.add(number, partition.cast(pa.int64()))
