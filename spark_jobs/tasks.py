"""The tasks of the Spark job: decode, transform, count and stage records. They run in the executors' Python.

Counts and rejects are keyed by the data, so a task that runs twice adds nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from tideline.domain.schemas import Part, Schemas
from tideline.formats.undeclared import Undeclared
from tideline.records.kafka_metadata import coordinates_of, stream_ids
from tideline.records.record_steps import RecordSteps, deletes
from tideline.sinks.sink import Refused, Stage, StagingPlace, as_text
from tideline.spark_jobs.tombstone_counts import Seen, TwoReads

Batches = Iterator[pa.RecordBatch]


def task_id() -> int:
    """Return the task attempt id of the Spark task that runs this. No other task of the driver has it."""
    found: int = TaskContext.get().taskAttemptId()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Turns raw records into decoded and transformed rows, and stores their counts and rejects."""

    place: StagingPlace
    steps: RecordSteps
    schemas: Schemas
    tombstones: TwoReads | None = None
    """Only where the batch is read twice, and tombstones delete."""

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow`, before a `frame` transform. Yield the rows."""
        with self.place.recorder() as recorder:
            tables = self.steps.tables(batches, recorder, self.schemas)
            for table in self.tombstones.first.counted(tables) if self.tombstones else tables:
                if not deletes(table):
                    yield from coordinates_of(table).to_batches()


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterFrame:
    """Stages the rows of a `frame` transform, and reports the records of refused rows. Their bytes are not here: the driver has them read again."""

    place: StagingPlace
    stage: Stage

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow`. Yield one row of the schema `WINNER`."""
        refusals = _Refusals(self.place)
        winner = self.stage.store((pa.Table.from_batches([batch]) for batch in batches), refusals, task_id())
        yield winner._replace(refused=as_text(refusals.found.values())).as_batch()


class _Refusals:
    """Keeps which records were refused, and the first reason of each."""

    def __init__(self, place: StagingPlace) -> None:
        self._streams = place.streams
        self.found: dict[tuple[int, int], Refused] = {}

    def count(self, raw: pa.StructArray, *, rejected: Iterable[pa.StructArray], passed: Iterable[pa.Table]) -> None:
        """Keep nothing: `Decoding` has counted the records."""

    def undeclared(self, raw: pa.StructArray, fields: Mapping[tuple[Part, str], Undeclared]) -> None:
        """Keep nothing."""

    def reject(self, step: str, records: pa.StructArray, reasons: Iterable[str]) -> None:  # noqa: ARG002 - an account's signature
        """Keep the coordinates of records, with one reason for each."""
        places = zip(stream_ids(records, self._streams).to_pylist(), records.field("offset").to_pylist(), strict=True)
        for place, reason in zip(places, reasons, strict=True):
            self.found.setdefault(place, Refused(*place, reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """Folds the records of a stateful pipeline and stages what comes of them, and stores refused records as rejects."""

    place: StagingPlace
    stage: Stage

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow`. Yield one row of the schema `WINNER`."""
        with self.place.recorder() as recorder:
            winner = self.stage.store((pa.Table.from_batches([batch]) for batch in batches), recorder, task_id())
        yield winner.as_batch()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletions:
    """Stages only what tombstones delete, for pipelines with a `frame`: there is nothing to transform. `Decoding` counts them."""

    decoding: Decoding
    stage: Stage
    seen: Seen

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow`. Yield one row of the schema `WINNER`."""
        with self.decoding.place.recorder() as recorder:
            decoding = self.decoding
            tables = self.seen.counted(decoding.steps.tables(batches, _Nothing(), decoding.schemas))
            winner = self.stage.store(filter(deletes, tables), recorder, task_id())
        yield winner.as_batch()


class _Nothing:
    """Keeps no counts and no rejects: another task keeps those of the same records."""

    def count(self, raw: pa.StructArray, *, rejected: Iterable[pa.StructArray], passed: Iterable[pa.Table]) -> None:
        """Keep nothing."""

    def reject(self, step: str, records: pa.StructArray, reasons: Iterable[str]) -> None:
        """Keep nothing."""

    def undeclared(self, raw: pa.StructArray, fields: Mapping[tuple[Part, str], Undeclared]) -> None:
        """Keep nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePass:
    """Decodes, transforms and stages raw records in one pass, for pipelines without a `frame`. Each record is sent to Python only once."""

    decoding: Decoding
    stage: Stage

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow`. Yield one row of the schema `WINNER`."""
        decoding = self.decoding
        with decoding.place.recorder() as recorder:
            tables = decoding.steps.tables(batches, recorder, decoding.schemas)
            winner = self.stage.store(tables, recorder, task_id())
        yield winner.as_batch()
