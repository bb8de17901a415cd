"""The tasks of the Spark job: decode, transform, count and stage records. They run in the executors' Python.

Counts and rejects are keyed by the data, so a task that runs twice adds nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.records.record_steps import RecordSteps, deletes
from spark_jobs.sinks.sink import Place, Stage

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Turns raw records into decoded and transformed rows, and stores their counts and rejects."""

    place: Place
    steps: RecordSteps

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow`, before a `frame` transform. Yield the rows."""
        with self.place.recorder() as recorder:
            for table in self.steps.tables(batches, recorder):
                if not deletes(table):
                    yield from table.to_batches()


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterFrame:
    """Stages the rows of a `frame` transform, and stores the records of refused rows as rejects."""

    place: Place
    stage: Stage

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow`. Yield one row of the schema `WINNER`."""
        with self.place.recorder() as recorder:
            winner = self.stage.store((pa.Table.from_batches([batch]) for batch in batches), recorder)
        yield winner.as_batch()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletions:
    """Stages only what tombstones delete, for pipelines with a `frame`: there is nothing to transform. `Decoding` counts them."""

    decoding: Decoding
    stage: Stage

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow`. Yield one row of the schema `WINNER`."""
        with self.decoding.place.recorder() as recorder:
            tables = self.decoding.steps.tables(batches, _Nothing())
            winner = self.stage.store(filter(deletes, tables), recorder)
        yield winner.as_batch()


class _Nothing:
    """Keeps no counts and no rejects: another task keeps those of the same records."""

    def count(self, raw: pa.StructArray, *, rejected: Iterable[pa.StructArray], passed: Iterable[pa.Table]) -> None:
        """Keep nothing."""

    def reject(self, step: str, records: pa.StructArray, reasons: Iterable[str]) -> None:
        """Keep nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePass:
    """Decodes, transforms and stages raw records in one pass, for pipelines without a `frame`. Each record is sent to Python only once."""

    decoding: Decoding
    stage: Stage

    def __call__(self, batches: Batches) -> Batches:
        """Process one task of `mapInArrow`. Yield one row of the schema `WINNER`."""
        with self.decoding.place.recorder() as recorder:
            winner = self.stage.store(self.decoding.steps.tables(batches, recorder), recorder)
        yield winner.as_batch()
