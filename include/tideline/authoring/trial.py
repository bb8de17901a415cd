"""Try a pipeline on a sample: decode and transform its records with the code of the Spark job, and store nothing.

Needs neither Kafka nor Postgres. Only a `frame` needs Spark, which runs inside this process, and only its `dimension`
needs the database. What the target table refuses is not tried.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.records import transforms
from spark_jobs.records.record_steps import BATCH_RECORDS, record_steps
from spark_jobs.records.transforms import Transform
from tideline.declaration.pipelines import Pipeline
from tideline.errors import FatalError


class Place(NamedTuple):
    """The record that a row came from. The parts are None if the transform has lost them."""

    topic: str | None
    partition: int | None
    offset: int | None

    def __str__(self) -> str:
        return "no offset" if self.offset is None else f"{self.topic}/{self.partition} offset {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """A record of the sample that would be a reject."""

    line: int
    """The number of the record in the sample, from 1: its line, if the sample is a file."""
    step: str
    """`decode` or `transform`."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What became of the records of a sample. Each is written, rejected or filtered."""

    table: pa.Table
    """The rows, with the struct column `kafka` that names the record of each, in the order of the sample."""
    lines: list[int]
    """For each row the number of its record in the sample, from 1."""
    rejects: list[Reject]
    """In the order of the sample."""
    n_read: int
    n_written: int
    """Records that have rows. It is less than the number of rows if a record becomes several."""
    n_filtered: int

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the rows that would be written, with the columns that the transform produces, without `kafka`."""
        return self.first(self.table.num_rows)

    def first(self, limit: int) -> list[dict[str, Any]]:
        """Return at most `limit` of the rows."""
        return self.table.drop_columns("kafka").slice(0, limit).to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types


@dataclass(slots=True)
class _Account:
    """Keeps the rejects of a trial. Its counts follow from the rows and the rejects."""

    rejected: list[tuple[Place, str, str]] = field(default_factory=list)

    def count(self, raw: pa.StructArray, *, rejected: Iterable[pa.StructArray], passed: Iterable[pa.Table]) -> None:
        """Keep nothing."""

    def reject(self, step: str, records: pa.StructArray, reasons: Iterable[str]) -> None:
        """Add records as rejects, with one reason for each record."""
        self.rejected += [(place, step, reason) for place, reason in zip(_places(records), reasons, strict=True)]


def tried(pipeline: Pipeline, sample: pa.Table) -> Trial:
    """Decode and transform the records of a sample (its columns are those of `sample.RAW`).

    Raises:
        FatalError: The transform is wrong: it cannot be imported, fails for every record, or returns rows of records
            that are not in the sample.
        RetryableError: The database of a `dimension` did not answer.
    """
    transform = _transform(pipeline)
    steps = record_steps(pipeline, transform)
    account = _Account()
    tables = list(steps.tables(sample.to_batches(max_chunksize=BATCH_RECORDS), account))
    rows = _framed(pipeline, transform, pa.concat_tables([steps.rows.empty_table(), *tables]))
    numbers = {place: number for number, place in enumerate(_places(sample.to_struct_array()), start=1)}
    places = _places(rows.column("kafka"))
    if unknown := set(places) - numbers.keys():
        raise FatalError(
            f"{pipeline.name}: the transform returned a row of {min(unknown, key=str)}, which is not in the sample",
            next_step="let transform.py return the column `kafka` unchanged",
            entry="transform",
        )
    lines = [numbers[place] for place in places]
    in_order = sorted(range(len(lines)), key=lines.__getitem__)  # Spark returns rows in any order
    rejects = [Reject(line=numbers[place], step=step, reason=reason) for place, step, reason in account.rejected]
    return Trial(
        table=rows.take(pa.array(in_order, pa.int64())),
        lines=sorted(lines),
        rejects=sorted(rejects, key=lambda reject: reject.line),
        n_read=sample.num_rows,
        n_written=len(set(lines)),
        n_filtered=sample.num_rows - len(set(lines)) - len(rejects),
    )


def _transform(pipeline: Pipeline) -> Transform:
    try:
        return transforms.load(pipeline)
    except transforms.NeedsSparkError:
        from spark_jobs.sample_frame import started  # noqa: PLC0415 - see `_framed`

        started(pipeline.name)
        return transforms.load(pipeline)


def _framed(pipeline: Pipeline, transform: Transform, decoded: pa.Table) -> pa.Table:
    if transform.frame is None:
        return decoded
    # Only here, because the rest works without Spark, and its JVM takes seconds to start.
    from spark_jobs.sample_frame import framed_sample  # noqa: PLC0415

    return framed_sample(pipeline.name, transform.frame, decoded)


def _places(records: pa.StructArray | pa.ChunkedArray) -> list[Place]:
    columns = (pc.struct_field(records, name).to_pylist() for name in Place._fields)
    return [Place(*parts) for parts in zip(*columns, strict=True)]
