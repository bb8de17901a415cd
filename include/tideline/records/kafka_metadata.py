"""Build the struct column `kafka`, which identifies the record of each row, and restore it after a transform. Runs in the executors' Python."""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from tideline.errors import FatalError
from tideline.records.transforms import COORDINATES, KAFKA

_EARLIEST_EXACT = pa.scalar(datetime(1900, 1, 1, tzinfo=UTC), KAFKA.field("timestamp").type)
"""The JVM changes earlier timestamps by its calendars and time zones: by minutes, and before 1582 by days. The change cannot always be undone."""
_COORDINATES = ("topic", "partition", "offset")


def kafka_column(batch: pa.RecordBatch) -> pa.StructArray:
    """Return the columns of Spark's Kafka reader as the struct column `kafka`. A timestamp before 1900 becomes null, since its value is not exact."""
    parts = {
        part.name: column if (column := batch.column(part.name)).type == part.type else column.cast(part.type)
        for part in KAFKA
    }
    inexact = pc.less(parts["timestamp"], _EARLIEST_EXACT)
    if pc.any(inexact).as_py():
        parts["timestamp"] = pc.if_else(inexact, None, parts["timestamp"])
    return pa.StructArray.from_arrays(list(parts.values()), fields=list(KAFKA))


def coordinates_only(rows: pa.Schema) -> pa.Schema:
    """Return the columns that a frame gets of the output of `records`."""
    return rows.set(rows.get_field_index("kafka"), pa.field("kafka", COORDINATES))


def coordinates_of(rows: pa.Table) -> pa.Table:
    """Leave of the column `kafka` what a frame gets: bytes of keys, values and headers would be shuffled, and a frame could change them."""
    kafka = rows.column("kafka").combine_chunks()
    parts = pa.StructArray.from_arrays([kafka.field(part.name) for part in COORDINATES], fields=list(COORDINATES))
    return rows.set_column(rows.schema.get_field_index("kafka"), "kafka", parts)


def as_they_came(rows: pa.Table, raw: pa.StructArray) -> pa.Table:
    """Restore key, value, headers and timestamp of each row from its record, so that a reject is stored exactly, even if a transform changed them."""
    kafka = rows.column("kafka").combine_chunks()
    if all(kafka.field(name).equals(raw.field(name)) for name in _COORDINATES):
        restored = raw
    else:
        # Looked up by all three: a task reads several partitions, and these have equal offsets.
        places = pc.index_in(_coordinates(kafka), value_set=_coordinates(raw), skip_nulls=True)
        if places.null_count:
            return rows  # they name records that are not in `raw`; this is refused when the rows are stored
        restored = raw.take(places)
    return rows.set_column(rows.schema.get_field_index("kafka"), "kafka", restored)


def _coordinates(kafka: pa.StructArray) -> pa.Array:
    """Return topic, partition and offset as one text, which Arrow can look up; null if one of them is null."""
    return pc.binary_join_element_wise(*(kafka.field(name).cast(pa.string()) for name in _COORDINATES), "/")


def headers_as_json(headers: Iterable[tuple[str, bytes | None]]) -> str | None:
    """Return headers as Spark's `to_json` has them: values in base64, and left out where they are null. None if there are no headers."""
    parts = [{"key": key} | ({} if value is None else {"value": b64encode(value).decode()}) for key, value in headers]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":")) if parts else None


def stream_ids(kafka: pa.StructArray, streams: Mapping[tuple[str, int], int]) -> pa.Array:
    """Return the stream id of each row.

    Raises:
        FatalError: A row names a topic and partition that the batch does not read, or no offset.
    """
    if kafka.field("offset").null_count:
        raise FatalError(
            "the transform returned a row without an offset",
            next_step="let transform.py return the column `kafka` unchanged",
            entry="transform",
        )
    known = sorted(streams)
    topics, partitions = (pa.array(part) for part in zip(*known, strict=True))
    names = topics.unique()
    places = _places(topics, partitions.cast(pa.int32()), names)
    ids = pc.index_in(_places(kafka.field("topic"), kafka.field("partition"), names), value_set=places, skip_nulls=True)
    if ids.null_count:
        unknown = kafka[pc.index(ids.is_null(), True).as_py()].as_py()
        raise FatalError(
            f"the transform returned a row of {unknown['topic']}/{unknown['partition']}, which the batch does not read",
            next_step="let transform.py return the column `kafka` unchanged",
            entry="transform",
        )
    return pa.array([streams[place] for place in known], pa.int64()).take(ids)


def _places(topic: pa.Array, partition: pa.Array, names: pa.Array) -> pa.Array:
    """Return topic and partition as one number per row, which Arrow can look up; null if the topic is not in `names`."""
    number = pc.shift_left(pc.index_in(topic, value_set=names, skip_nulls=True).cast(pa.int64()), 32)
    return pc.add(number, partition.cast(pa.int64()))
