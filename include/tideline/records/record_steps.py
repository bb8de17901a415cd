"""The steps `decode` and `transform` of raw records, with their counts and rejects. Runs in the executors' Python, and where a sample is tried."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tideline.declaration.pipelines import Pipeline
from tideline.domain.schemas import Part, Schemas
from tideline.formats.format import RawRecords
from tideline.formats.undeclared import Undeclared
from tideline.records import transforms
from tideline.records.kafka_metadata import as_they_came, kafka_column
from tideline.records.record_decoding import Formats, RecordDecoder, formats
from tideline.records.row_bisection import Refusal, isolate
from tideline.records.transforms import Transform

_DELETES = b"tideline_deletes"
"""Metadata that only tables of tombstones have. A column could have the name of one of the records'."""
BATCH_RECORDS = 20_000
"""The most records that one Arrow batch holds."""


class Account(Protocol):
    """What keeps the counts and rejects of records."""

    def count(self, raw: pa.StructArray, *, rejected: Iterable[pa.StructArray], passed: Iterable[pa.Table]) -> None:
        """Count raw records. Those in `rejected` were rejected, those in `passed` have output rows, and all others were filtered."""

    def reject(self, step: str, records: pa.StructArray, reasons: Iterable[str]) -> None:
        """Add records as rejects, with one reason for each record."""

    def undeclared(self, raw: pa.StructArray, fields: Mapping[tuple[Part, str], Undeclared]) -> None:
        """Add the fields of raw records that no column takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSteps:
    """Turns raw records into decoded and transformed rows."""

    formats: Formats
    records: Callable[[pa.Table], pa.Table] | None
    rows: pa.Schema
    """The output columns of `records` for a table without rows. They were checked before anything was read."""

    def tables(self, batches: Iterable[pa.RecordBatch], account: Account, schemas: Schemas) -> Iterator[pa.Table]:
        """Yield the rows of each Arrow batch, without rejected records.

        Tombstones that delete do not pass the transform. They are yielded as tables of their own (see `deletes`).
        """
        decode = RecordDecoder(self.formats, schemas)
        for batch in batches:
            raw = kafka_column(batch)
            decoded = decode(
                RawRecords(
                    part="value", keys=batch.column("key"), values=batch.column("value"), headers=raw.field("headers")
                )
            )
            account.undeclared(raw, decoded.undeclared)
            rejected = [raw.take(pa.array(decoded.rejected, pa.int64()))]
            account.reject("decode", rejected[0], decoded.rejected.values())
            kept = raw.take(decoded.kept) if len(decoded.kept) < len(raw) else raw
            passed, refusals = self._transform(decoded.table.append_column("kafka", kept))
            if len(decoded.deleted):
                passed = [*passed, deleting(decoded.deletions.append_column("kafka", raw.take(decoded.deleted)))]
            for refusal in refusals:
                rejected.append(refusal.row.column("kafka").combine_chunks())
                account.reject("transform", rejected[-1], [refusal.reason])
            account.count(raw, rejected=rejected, passed=passed)
            yield from passed

    def _apply(self, table: pa.Table) -> pa.Table:
        given = self.records(table)  # type: ignore[misc]  # the caller has checked that it is not None
        fitting = given if given.schema.equals(self.rows) else given.select(self.rows.names).cast(self.rows)
        return as_they_came(fitting, table.column("kafka").combine_chunks())

    def _transform(self, table: pa.Table) -> tuple[list[pa.Table], list[Refusal]]:
        if self.records is None:
            return [table], []
        return isolate(table, self._apply, (Exception,), suspect="`records` of transform.py")


def record_steps(pipeline: Pipeline, transform: Transform) -> RecordSteps:
    """Return the steps that a pipeline declares. Calls `records` with a table without rows, to find its output columns.

    Raises:
        FatalError: `records` raises, does not return a table, or loses the column `kafka`; or only one of state and
            processor is there; or a schema file is not there, or does not fit the columns.
    """
    transforms.check_state(pipeline, transform)
    declared = formats(pipeline.source, pipeline.folder)
    rows = transforms.records_schema(transform, RecordDecoder(declared).schema())
    return RecordSteps(formats=declared, records=transform.records, rows=rows)


def deleting(keys: pa.Table) -> pa.Table:
    """Return a table of keys, with the column `kafka`, as one whose records delete their rows."""
    return keys.replace_schema_metadata({_DELETES: b""})


def deletes(table: pa.Table) -> bool:
    """Return whether the records of a table are tombstones that delete: it has the columns of their keys and `kafka`."""
    return _DELETES in (table.schema.metadata or {})
