"""Turn the records that the target refused at publish into rejects.

The records are read a second time, because staging does not hold their bytes. Only these records are rejected, and
nothing is staged again: the rows that the other records have staged are published.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from spark_jobs.records.kafka_metadata import kafka_column, stream_ids
from spark_jobs.sinks.sink import Place, Refused, Winner
from tideline.domain.offsets import OffsetRange
from tideline.ledger.attempts import Range


def narrowed(ranges: Sequence[Range], refused: Sequence[Refused]) -> tuple[Range, ...]:
    """Return the parts of the ranges that contain the refused records."""
    offsets: dict[int, list[int]] = {}
    for record in refused:
        offsets.setdefault(record.stream_id, []).append(record.offset)
    return tuple(
        replace(piece, offsets=OffsetRange(min(found), max(found) + 1))
        for piece in ranges
        if (found := offsets.get(piece.stream_id))
    )


@dataclass(frozen=True, slots=True)
class Reasons:
    """The refused records of one stream, as Arrow arrays: there may be many, and they are sent with each task."""

    offsets: pa.Int64Array
    reasons: pa.StringArray


def by_stream(refused: Sequence[Refused]) -> dict[int, Reasons]:
    """Group the refused records by stream id, as `Refusing` needs them."""
    in_order = sorted(refused, key=attrgetter("stream_id"))
    found = {stream_id: list(records) for stream_id, records in groupby(in_order, key=attrgetter("stream_id"))}
    return {
        stream_id: Reasons(
            pa.array([one.offset for one in records], pa.int64()),
            pa.array([one.reason for one in records], pa.string()),
        )
        for stream_id, records in found.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusing:
    """Read raw records, and store those that the target has refused as rejects. Runs in the executors' Python."""

    place: Place
    refused: dict[int, Reasons]
    """By stream id."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process one task of `mapInArrow`. Yield one row of the schema `WINNER`, with the number of rejected records."""
        n_records = 0
        with self.place.recorder() as recorder:
            for batch in batches:
                raw = kafka_column(batch)
                streams = stream_ids(raw, self.place.streams)
                for stream_id in pc.unique(streams).to_pylist():
                    if (known := self.refused.get(stream_id)) is None:
                        continue
                    records = raw.filter(pc.equal(streams, stream_id))
                    places = pc.index_in(records.field("offset"), value_set=known.offsets)
                    found = records.filter(pc.is_valid(places))
                    recorder.reject("store", found, known.reasons.take(places.drop_null()).to_pylist())
                    n_records += len(found)
        task = TaskContext.get().taskAttemptId()
        yield Winner(task, n_records).as_batch()
