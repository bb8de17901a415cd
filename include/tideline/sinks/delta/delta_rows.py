"""Count the records of published batches in a Delta table: a receipt says that a commit happened, not that its rows are still there."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tideline.declaration.pipelines import Pipeline
from tideline.ledger import published_rows
from tideline.ledger.published_rows import Published
from tideline.sinks.delta import delta_features, delta_files, delta_log
from tideline.sinks.delta.delta_log import Location, plain_path

_KEY = ["tideline_batch", "kafka_topic_id", "kafka_partition"]


def found_otherwise(pipeline: Pipeline, ranges: Sequence[Published]) -> Mapping[Published, int]:
    """Return the ranges of which the table of a pipeline holds another number of records, with that number.

    Only rows under the number of the batch and within its offsets count: after a restore of the ledger, a number may stand in the
    table for other offsets as well. Nothing is compared where there is no table, or one with a feature that is not kept:
    other checks name these.

    Raises:
        RetryableError: Storage did not answer.
    """
    location = delta_log.of(pipeline)
    table = location.open()
    if table is None or delta_features.unkept(table):
        return {}
    wrong: dict[Published, int] = {}
    for part in published_rows.slices(ranges):
        try:
            counts = _counted(location, table, part)
        except (DeltaError, OSError) as error:
            raise location.unavailable(error) from error
        wrong |= {one: n_found for one in part if (n_found := counts.get(one.key, 0)) != one.n_written}
    return wrong


def _counted(location: Location, table: DeltaTable, ranges: Sequence[Published]) -> Mapping[tuple[Any, ...], int]:
    """Return how many records of each range there are, by its key."""
    wanted = pa.table(
        {
            "tideline_batch": pa.array([one.batch_id for one in ranges], pa.int64()),
            "kafka_topic_id": pa.array([one.topic_id for one in ranges], pa.string()),
            "kafka_partition": pa.array([one.partition for one in ranges], pa.int32()),
            "start": pa.array([one.offsets.start for one in ranges], pa.int64()),
            "end": pa.array([one.offsets.end for one in ranges], pa.int64()),
        }
    )
    files, batches = delta_files.filesystem(location), wanted["tideline_batch"]
    columns = pa.schema([*(wanted.schema.field(name) for name in _KEY), pa.field("kafka_offset", pa.int64())])
    found = [columns.empty_table()]
    for file in pa.table(table.get_add_actions(flatten=False)).to_pylist():
        if not _may_hold(file, ranges):
            continue
        with files.open_input_file(plain_path(file["path"])) as source:
            rows = pq.ParquetFile(source).read(columns.names)
        rows = rows.select(columns.names).cast(columns)  # another program may have written it
        rows = rows.filter(pc.is_in(rows["tideline_batch"], value_set=batches.combine_chunks())).join(
            wanted, _KEY, join_type="inner"
        )
        inside = pc.and_(
            pc.greater_equal(rows["kafka_offset"], rows["start"]), pc.less(rows["kafka_offset"], rows["end"])
        )
        found.append(rows.filter(inside).select([*_KEY, "kafka_offset"]))
    grouped = pa.concat_tables(found).group_by(_KEY).aggregate([("kafka_offset", "count_distinct")])
    return {tuple(row[name] for name in _KEY): row["kafka_offset_count_distinct"] for row in grouped.to_pylist()}


def _may_hold(file: Mapping[str, Any], ranges: Sequence[Published]) -> bool:
    """Return whether a file may hold rows of the batches, by its statistics."""
    least, most = ((file.get(bound) or {}).get("tideline_batch") for bound in ("min", "max"))
    if least is None or most is None:
        return True
    return bool(least <= max(one.batch_id for one in ranges) and min(one.batch_id for one in ranges) <= most)
