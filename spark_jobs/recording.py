"""Counts and rejects of one Spark task, into the ledger's staging. Both are keyed by the data, so that a task that ran twice counts once."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from tideline.ledger.connection import Ledger

_REJECTS_AT_ONCE = 1_000
_BYTES_AT_ONCE = 8 << 20


class Recorder:
    """Collects while records pass and stores at the end of the task; rejects also in between, so that memory stays flat.

    Args:
        ledger_url: libpq URI of the ledger.
        attempt_id: Under which attempt to record.
        streams: Stream id by topic and partition.
    """

    def __init__(self, ledger_url: str, attempt_id: int, streams: Mapping[tuple[str, int], int]) -> None:
        self._ledger_url = ledger_url
        self._attempt_id = attempt_id
        self._streams = streams
        self._counts: dict[int, dict[str, int]] = {}
        self._rejects: list[tuple[Any, ...]] = []
        self._reject_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._store()

    def count(self, raw: pa.StructArray, *, n_rejected: int, passed: Iterable[pa.Table]) -> None:
        """Count raw records, of which `n_rejected` were rejected and those of `passed` go on; the others were filtered.

        One call is about one stream: a Spark task of the Kafka reader reads one partition.
        """
        if not len(raw):
            return
        offsets = raw.field("offset")
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        stream_id = self._streams[raw.field("topic")[0].as_py(), raw.field("partition")[0].as_py()]
        count = self._counts.setdefault(stream_id, {"first_read": first, "n_read": 0, "n_filtered": 0, "n_bytes": 0})
        count["last_read"] = last
        count["n_read"] += len(raw)
        count["n_bytes"] += sum(pc.sum(pc.binary_length(raw.field(name))).as_py() or 0 for name in ("key", "value"))
        count["n_filtered"] += len(raw) - n_rejected - sum(_distinct_offsets(table) for table in passed)

    def reject(self, step: str, records: pa.StructArray, reasons: Iterable[str]) -> None:
        """Reject records as they came from Kafka, with a reason each."""
        columns = {
            name: records.field(name).to_pylist()
            for name in ("topic", "partition", "offset", "key", "value", "headers")
        }
        # As a number: Kafka allows timestamps that neither Python nor Postgres can hold as a date.
        columns["timestamp"] = records.field("timestamp").cast(pa.int64()).to_pylist()
        for *record, reason in zip(*columns.values(), reasons, strict=True):
            self._rejects.append(self._row(step, dict(zip(columns, record, strict=True)), reason))
            self._reject_bytes += sum(len(part) for part in self._rejects[-1][-3:] if part)  # key, value, headers
            if len(self._rejects) >= _REJECTS_AT_ONCE or self._reject_bytes >= _BYTES_AT_ONCE:
                self._store_rejects()

    def _row(self, step: str, record: Mapping[str, Any], reason: str) -> tuple[Any, ...]:
        timestamp, headers = record["timestamp"], record["headers"]
        return (
            self._streams[record["topic"], record["partition"]],
            record["offset"],
            step,
            reason,
            None if timestamp is None else timestamp // 1000,
            record["key"],
            record["value"],
            None if headers is None else headers.encode(),
        )

    def _store(self) -> None:
        self._store_rejects()
        if self._counts:
            with Ledger(self._ledger_url, actor="spark task") as ledger, ledger.transaction():
                for stream_id, count in sorted(self._counts.items()):
                    ledger.run("stage_count", attempt_id=self._attempt_id, stream_id=stream_id, **count)

    def _store_rejects(self) -> None:
        if not self._rejects:
            return
        # In order: two tasks behind a frame that reject rows of the same records would lock each other out.
        in_order = sorted(self._rejects, key=lambda reject: reject[:2])
        columns: Sequence[list[Any]] = [list(column) for column in zip(*in_order, strict=True)]
        names = ("stream_ids", "offsets", "steps", "reasons", "timestamps_ms", "keys", "values", "headers")
        with Ledger(self._ledger_url, actor="spark task") as ledger, ledger.transaction():
            ledger.run("stage_rejects", attempt_id=self._attempt_id, **dict(zip(names, columns, strict=True)))
        self._rejects.clear()
        self._reject_bytes = 0


def _distinct_offsets(table: pa.Table) -> int:
    """How many records the rows come from: a transform may have made several rows of one."""
    kafka = table.column("kafka").combine_chunks()
    return len(kafka.field("offset").unique())
