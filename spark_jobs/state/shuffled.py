"""The form in which Spark exchanges and sorts the records of a stateful batch: flat columns, without what the stream of a record tells already.

Spark measures its Arrow batch after each row, and for the struct column `kafka` that took a fifth of the time of a fold.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.records.transforms import KAFKA
from spark_jobs.state.arrow_records import STREAM

_PREFIX = "tideline_kafka_"
OFFSET = f"{_PREFIX}offset"
HASH = "tideline_hash"
"""Of the key. Equal keys follow each other in the order of this column and the key."""
_OF_STREAM = ("topic", "partition")
_MOVED = [part for part in KAFKA if part.name not in _OF_STREAM]


def flat_schema(keyed: pa.Schema) -> pa.Schema:
    """Return the columns of flat tables from those of keyed tables."""
    others = [field for field in keyed if field.name != "kafka"]
    return pa.schema([*others, *(part.with_name(f"{_PREFIX}{part.name}") for part in _MOVED)])


def flattened(table: pa.Table) -> pa.Table:
    """Return a keyed table with flat columns."""
    kafka = table.column("kafka")
    flat = table.drop_columns("kafka")
    for part in _MOVED:
        flat = flat.append_column(f"{_PREFIX}{part.name}", pc.struct_field(kafka, part.name))
    return flat


def restored(flat: pa.Table, streams: Mapping[tuple[str, int], int]) -> pa.Table:
    """Return a flat table as the keyed table that it was.

    Args:
        flat: The table.
        streams: Stream id by topic and partition.
    """
    places = pc.index_in(flat.column(STREAM), value_set=pa.array(streams.values(), pa.int64())).combine_chunks()
    parts = {
        "topic": pa.array([topic for topic, _ in streams], pa.string()).take(places),
        "partition": pa.array([partition for _, partition in streams], pa.int32()).take(places),
    }
    for part in _MOVED:
        parts[part.name] = flat.column(f"{_PREFIX}{part.name}").combine_chunks()
    kafka = pa.StructArray.from_arrays([parts[part.name] for part in KAFKA], fields=list(KAFKA))
    return flat.drop_columns([HASH, *(f"{_PREFIX}{part.name}" for part in _MOVED)]).append_column("kafka", kafka)
