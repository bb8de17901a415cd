"""Turn the records that the target refused at publish, or that did not fit after a frame, into rejects.

The records are read a second time, because neither staging nor a frame holds their bytes. Only these records are rejected, and
nothing is staged again: the rows that the other records have staged are published.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tideline.domain.offsets import OffsetRange
from tideline.errors import FatalError, RetryableError
from tideline.ledger.attempts import Attempt, Range
from tideline.records.kafka_metadata import kafka_column, stream_ids
from tideline.sinks.sink import Refused, StagingPlace, Winner, reported
from tideline.spark_jobs.preparation import Loading
from tideline.spark_jobs.tasks import task_id


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


Run = Callable[[DataFrame, "Refusing"], Sequence[Winner]]
"""Runs tasks, and returns what the winning ones report."""


def reject(loading: Loading, refused: Sequence[Refused], *, run: Run) -> int:
    """Store these records as rejects, with their bytes from the source. Return how many could be read once more."""
    attempt = loading.attempt
    raw = loading.read(replace(attempt, ranges=narrowed(attempt.ranges, refused)), loading.limits)
    return sum(winner.n_rows for winner in run(raw, Refusing(place=loading.decoding.place, refused=by_stream(refused))))


def reject_reported(loading: Loading, winners: Sequence[Winner], *, run: Run) -> None:
    """Store the records that tasks have reported as refused as rejects.

    Raises:
        FatalError: The transform has returned rows of records that the batch does not have.
        RetryableError: Not all of them could be read once more.
    """
    refused = reported(winners)
    if not refused:
        return
    _check_of_batch(loading.attempt, refused)
    n_rejected = reject(loading, refused, run=run)
    if n_rejected != len(refused):
        raise RetryableError(
            f"{loading.attempt}: {len(refused)} records were refused, {n_rejected} of them could be read once more",
            next_step="run the task again",
        )


def _check_of_batch(attempt: Attempt, refused: Sequence[Refused]) -> None:
    """Make sure that the batch has these records: a frame may have changed the column `kafka`."""
    of_streams = {piece.stream_id: piece.offsets for piece in attempt.ranges}
    n_foreign = sum(one.offset not in of_streams[one.stream_id] for one in refused)
    if n_foreign:
        raise FatalError(
            f"{attempt}: the transform returned rows of {n_foreign} records that the batch does not have",
            next_step="let transform.py return the column `kafka` unchanged",
            entry="transform",
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

    place: StagingPlace
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
        task = task_id()
        yield Winner(task, n_records).as_batch()
