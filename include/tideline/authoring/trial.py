"""Try a pipeline on a sample: decode and transform its records with the code of the Spark job, and store nothing.

Needs neither Kafka nor Postgres. Only a `frame` needs Spark, which runs inside this process, and only its `dimension`
and the reference tables of a processor need the database. What the target table refuses is not tried.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tideline.authoring.folded_sample import Given, KeptState, fold_sample, given_tables
from tideline.authoring.sample import has_made_up_times
from tideline.declaration.pipelines import Pipeline
from tideline.domain.schemas import Part
from tideline.errors import FatalError
from tideline.formats.undeclared import Undeclared
from tideline.records import transforms
from tideline.records.record_steps import BATCH_RECORDS, deletes, record_steps
from tideline.records.transforms import Transform
from tideline.registry.sample_schemas import SampleSchemas
from tideline.state.rules import rules_of


class Origin(NamedTuple):
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


class Deletion(NamedTuple):
    """A tombstone of the sample that would delete the row with its key."""

    line: int
    """The number of the record in the sample, from 1."""
    key: dict[str, Any]
    """The columns of its key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What became of the records of a sample. Each is written, rejected or filtered."""

    table: pa.Table
    """The rows, with the struct column `kafka` that names the record of each, in the order of the sample."""
    lines: list[int]
    """For each row the number of its record in the sample, from 1."""
    rejects: list[Reject]
    """In the order of the sample."""
    deletions: list[Deletion]
    """In the order of the sample; only with `source.tombstones: delete`."""
    n_read: int
    n_written: int
    """Records that have rows, and tombstones that delete. It is less than the number of rows if a record becomes several, or a timer makes rows."""
    n_filtered: int
    states: list[KeptState] | None = None
    """What is kept for each key afterwards, in the order of the keys; None if the pipeline is not stateful."""
    undeclared: Mapping[tuple[Part, str], int] = field(default_factory=dict)
    """How many records have a field that no column takes, the most common first."""

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

    rejected: list[tuple[Origin, str, str]] = field(default_factory=list)
    fields: Counter[tuple[Part, str]] = field(default_factory=Counter)

    def count(self, raw: pa.StructArray, *, rejected: Iterable[pa.StructArray], passed: Iterable[pa.Table]) -> None:
        """Keep nothing."""

    def undeclared(self, raw: pa.StructArray, fields: Mapping[tuple[Part, str], Undeclared]) -> None:  # noqa: ARG002 - an account's signature
        """Add how many records have each field that no column takes."""
        self.fields.update({field: one.n_records for field, one in fields.items()})

    def reject(self, step: str, records: pa.StructArray, reasons: Iterable[str]) -> None:
        """Add records as rejects, with one reason for each record."""
        self.rejected += [(place, step, reason) for place, reason in zip(_places(records), reasons, strict=True)]


def tried(pipeline: Pipeline, sample: pa.Table, given: Given | None = None) -> Trial:
    """Decode and transform the records of a sample (its columns are those of `sample.RAW`).

    Args:
        pipeline: The pipeline.
        sample: The records.
        given: The reference tables of its processor. Defaults to None: those of the ledger's database.

    Raises:
        FatalError: The transform is wrong: it cannot be imported, fails for every record, or returns rows of records
            that are not in the sample. Or a reference table cannot be read, or the schema registry is none.
        RetryableError: The database of a `dimension` or of a reference table did not answer, or the schema registry.
        ValueError: `given` are not those of the processor.
    """
    transform = _transform(pipeline)
    steps = record_steps(pipeline, transform)
    account = _Account()
    batches = sample.to_batches(max_chunksize=BATCH_RECORDS)
    tables = list(steps.tables(batches, account, SampleSchemas(pipeline)))
    upserts = [table for table in tables if not deletes(table)]
    decoded = pa.concat_tables([steps.rows.empty_table(), *upserts])
    rules = rules_of(pipeline, transform, steps.rows)
    planned_at = None if has_made_up_times(sample) else datetime.now(UTC)
    folded = None if rules is None else fold_sample(given_tables(pipeline, rules, given), decoded, account, planned_at)
    rows = folded.table if folded else _framed(pipeline, transform, decoded)
    numbers = {place: number for number, place in enumerate(_places(sample.to_struct_array()), start=1)}
    places = _places(rows.column("kafka"))
    if unknown := set(places) - numbers.keys():
        raise FatalError(
            f"{pipeline.name}: the transform returned a row of {min(unknown, key=str)}, which is not in the sample",
            next_step="let transform.py return the column `kafka` unchanged",
            entry="transform",
        )
    lines = [numbers[place] for place in places]
    n_written = len(folded.written) if folded else len(set(lines))
    in_order = sorted(range(len(lines)), key=lines.__getitem__)  # Spark returns rows in any order
    deletions = [one for table in tables if deletes(table) for one in _deletions(table, numbers)]
    rejects = [Reject(line=numbers[place], step=step, reason=reason) for place, step, reason in account.rejected]
    return Trial(
        table=rows.take(pa.array(in_order, pa.int64())),
        lines=sorted(lines),
        rejects=sorted(rejects, key=lambda reject: reject.line),
        deletions=deletions,
        n_read=sample.num_rows,
        n_written=n_written + len(deletions),
        n_filtered=sample.num_rows - n_written - len(deletions) - len(rejects),
        states=folded.states if folded else None,
        undeclared=dict(account.fields.most_common()),
    )


def _transform(pipeline: Pipeline) -> Transform:
    try:
        return transforms.load(pipeline)
    except transforms.NeedsSparkError:
        from tideline.spark_jobs.sample_frame import started  # noqa: PLC0415 - see `_framed`

        started(pipeline.name)
        return transforms.load(pipeline)


def _framed(pipeline: Pipeline, transform: Transform, decoded: pa.Table) -> pa.Table:
    if transform.frame is None:
        return decoded
    # Only here, because the rest works without Spark, and its JVM takes seconds to start.
    from tideline.spark_jobs.sample_frame import framed_sample  # noqa: PLC0415

    return framed_sample(pipeline.name, transform.frame, decoded)


def _deletions(table: pa.Table, numbers: Mapping[Origin, int]) -> Iterator[Deletion]:
    keys = table.drop_columns(["kafka"]).to_pylist()
    for place, key in zip(_places(table.column("kafka")), keys, strict=True):
        yield Deletion(numbers[place], key)


def _places(records: pa.StructArray | pa.ChunkedArray) -> list[Origin]:
    columns = (pc.struct_field(records, name).to_pylist() for name in Origin._fields)
    return [Origin(*parts) for parts in zip(*columns, strict=True)]
