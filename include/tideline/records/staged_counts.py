"""Store counts and rejects of one Spark task in the ledger's staging tables.

Their keys contain streams and offsets, but no task. So a task that runs twice is counted once.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Self
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from tideline.domain.schemas import Part
from tideline.formats.undeclared import MOST, Undeclared
from tideline.ledger import staged
from tideline.ledger.connection import Ledger
from tideline.ledger.fields import CountedField, count_fields
from tideline.records.kafka_metadata import stream_ids

_REJECTS_AT_ONCE = 10_000
_BYTES_AT_ONCE = 8 << 20
_COUNTED = ("first_read", "last_read", "n_read", "n_filtered", "n_bytes")


class Recorder:
    """Collects counts and rejects of a task and stores them at its end. Rejects are also stored in between, so that memory stays bounded.

    Opens one session with the ledger when there is something to store, and keeps it until the task ends.

    Args:
        ledger_url: libpq URI of the ledger.
        attempt: The attempt that counts and rejects are stored for.
        streams: Stream id by topic and partition.
    """

    def __init__(self, ledger_url: str, attempt: UUID, streams: Mapping[tuple[str, int], int]) -> None:
        self._ledger_url = ledger_url
        self._attempt = attempt
        self._streams = streams
        self._ledger: Ledger | None = None
        self._counts: dict[int, dict[str, int]] = {}
        self._fields: dict[tuple[Part, str], CountedField] = {}
        self._rejects: list[tuple[Any, ...]] = []
        self._reject_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._store()
        finally:
            if self._ledger is not None:
                self._ledger.close()

    def count(self, raw: pa.StructArray, *, rejected: Iterable[pa.StructArray], passed: Iterable[pa.Table]) -> None:
        """Count raw records. Those in `rejected` were rejected, those in `passed` have output rows, and all others were filtered.

        The records may be of several streams, since short ranges share a task. A range that shares a task is read by
        that task alone. So the counts of a range do not depend on the other ranges of the task.
        """
        for counted in self._of_streams(raw):
            stream_id = counted.pop("stream_id")
            count = self._counts.setdefault(stream_id, {**counted, "n_read": 0, "n_filtered": 0, "n_bytes": 0})
            count["first_read"] = min(count["first_read"], counted["first_read"])
            count["last_read"] = max(count["last_read"], counted["last_read"])
            for name in ("n_read", "n_bytes"):
                count[name] += counted[name]
            count["n_filtered"] += counted["n_read"]
        for records in (*rejected, *(table.column("kafka").combine_chunks() for table in passed)):
            for stream_id, n_records in self._distinct(records):
                # A transform may return a row with a stream that this task does not read. Such a row is refused when it
                # is stored.
                if stream_id in self._counts:
                    self._counts[stream_id]["n_filtered"] -= n_records

    def _of_streams(self, raw: pa.StructArray) -> list[dict[str, int]]:
        """Return for each stream the number of records, the first and the last offset, and the bytes of keys and values."""
        sizes = [pc.fill_null(pc.binary_length(raw.field(name)), 0).cast(pa.int64()) for name in ("key", "value")]
        columns = {
            "stream_id": stream_ids(raw, self._streams),
            "offset": raw.field("offset"),
            "bytes": pc.add(*sizes),
        }
        grouped = pa.table(columns).group_by("stream_id", use_threads=False)
        found = grouped.aggregate([("offset", "min"), ("offset", "max"), ("offset", "count"), ("bytes", "sum")])
        of_streams: list[dict[str, int]] = found.rename_columns(
            ["stream_id", "first_read", "last_read", "n_read", "n_bytes"]
        ).to_pylist()
        return of_streams

    def _distinct(self, kafka: pa.StructArray) -> list[tuple[int, int]]:
        """Return each stream and the number of distinct records in its rows: a transform may make several rows of one record."""
        rows = pa.table({"stream_id": stream_ids(kafka, self._streams), "offset": kafka.field("offset")})
        found = rows.group_by("stream_id", use_threads=False).aggregate([("offset", "count_distinct")])
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def reject(self, step: str, records: pa.StructArray, reasons: Iterable[str]) -> None:
        """Add records as rejects, with their original bytes and one reason for each record."""
        columns = [
            stream_ids(records, self._streams).to_pylist(),
            records.field("offset").to_pylist(),
            [step] * len(records),
            list(reasons),
            # As a number: Kafka allows timestamps that neither Python nor Postgres can represent as a date.
            [None if us is None else us // 1000 for us in records.field("timestamp").cast(pa.int64()).to_pylist()],
            *(records.field(name).to_pylist() for name in ("key", "value")),
            records.field("headers").cast(pa.binary()).to_pylist(),
        ]
        for row in zip(*columns, strict=True):
            self._rejects.append(row)
            self._reject_bytes += sum(len(part) for part in row[-3:] if part)  # key, value, headers
            if len(self._rejects) >= _REJECTS_AT_ONCE or self._reject_bytes >= _BYTES_AT_ONCE:
                self._store_rejects()

    def undeclared(self, raw: pa.StructArray, fields: Mapping[tuple[Part, str], Undeclared]) -> None:
        """Add the fields of raw records that no column takes, with the place of one of the records."""
        for field, one in fields.items():
            before = self._fields.get(field)
            if before is None:
                record = raw.slice(one.first, 1)
                [stream_id] = stream_ids(record, self._streams).to_pylist()
                self._fields[field] = CountedField(*field, one.n_records, stream_id, record.field("offset")[0].as_py())
            else:
                self._fields[field] = before._replace(n_records=before.n_records + one.n_records)

    def _store(self) -> None:
        self._store_rejects()
        if self._counts:
            counted = sorted(self._counts.items())
            if self._fields:
                first = f"{counted[0][0]}:{counted[0][1]['first_read']}"
                common = sorted(self._fields.values(), key=lambda field: -field.n_records)[:MOST]
                count_fields(self._session(), self._attempt, first, common)
            columns = {name: [count[name] for _, count in counted] for name in _COUNTED}
            ids = [stream_id for stream_id, _ in counted]
            staged.stage_counts(self._session(), self._attempt, ids, columns)

    def _store_rejects(self) -> None:
        if not self._rejects:
            return
        in_order = sorted(self._rejects, key=lambda reject: reject[:2])
        staged.stage_rejects(self._session(), self._attempt, in_order)
        self._rejects.clear()
        self._reject_bytes = 0

    def _session(self) -> Ledger:
        if self._ledger is None:
            self._ledger = Ledger(self._ledger_url, actor="spark task")
        return self._ledger
