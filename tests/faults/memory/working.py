"""A Spark job without Spark, over both ledgers: what its tasks read, stage, count and reject."""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from psycopg2.sql import SQL

from faults import records
from faults.checker.facts import Expected, Record, Stream
from faults.memory.both import BothLedgers
from faults.memory.kafka import Cluster
from faults.memory.sink import MemorySink
from faults.memory.sink import record as stored
from faults.records import Fate
from spark_jobs.sinks import postgres, postgres_output
from tideline import flow
from tideline.domain.states import BatchKind
from tideline.ledger.attempts import Attempt, Range
from tideline.ledger.connection import statement
from tideline.pipelines import Pipeline

_SLICES = {"slice_records": 4, "slice_bytes": 1 << 20}


@dataclass(frozen=True, slots=True)
class Staged:
    """What an attempt has put aside: where, and how many rows by each task that has won."""

    staging: str
    tasks: dict[int, int]


class Job:
    """Stages and publishes."""

    def __init__(self, ledger: BothLedgers, sink: MemorySink) -> None:
        self.corrected = False
        """Whether the transform takes what it refused before."""
        self._ledger = ledger
        self._target = sink.target
        self._tasks = count(1)

    def stage(self, attempt: Attempt) -> Staged:
        """Run all tasks; every third one twice, and then the second one has won."""
        staging = postgres.create_staging(self._ledger, self._target, attempt)
        tasks: dict[int, int] = {}
        for piece, found in self._read(attempt):
            task = next(self._tasks)
            tasks[task] = self._task(attempt, staging, task, piece, found)
            if task % 3 == 0:
                again = next(self._tasks)
                tasks[again] = self._task(attempt, staging, again, piece, found)
                del tasks[task]
        return Staged(staging, tasks)

    def publish(self, broker: Any, pipeline: Pipeline, attempt: Attempt, staged: Staged) -> None:
        """As the driver does."""

        def insert_output(ledger: BothLedgers) -> Any:
            return postgres_output.insert_output(ledger, self._target, attempt, staged.staging, staged.tasks)

        flow.publish(self._ledger, broker, pipeline, attempt, insert_output, filtered_by_difference=False)
        postgres.drop_staging(self._ledger, attempt.batch_id, range(1, attempt.fence + 1))

    def _read(self, attempt: Attempt) -> Iterable[tuple[Range, list[Record]]]:
        """What each task reads."""
        if attempt.kind is BatchKind.REDRIVE:
            return self._stored(attempt)
        return [
            (piece, list(records.records(*_place(piece), piece.offsets.start, piece.offsets.end)))
            for piece in attempt.ranges
        ]

    def _stored(self, attempt: Attempt) -> list[tuple[Range, list[Record]]]:
        pieces = {piece.stream_id: piece for piece in attempt.ranges}
        found = []
        with self._ledger.transaction():
            bound = {"batch_id": attempt.batch_id, **_SLICES}
            for part in self._ledger.rows_of(SQL(statement("spark_jobs", "slice_rejects.sql")), bound):
                piece, bounds = pieces[part["stream_id"]], {"start": part["start_offset"], "end": part["end_offset"]}
                asked = {"batch_id": attempt.batch_id, "stream_id": piece.stream_id, **bounds}
                rows = self._ledger.rows_of(SQL(statement("spark_jobs", "read_rejects.sql")), asked)
                found.append((piece, [records.record_at(*_place(piece), row["kafka_offset"]) for row in rows]))
        return found

    def _task(self, attempt: Attempt, staging: str, task: int, piece: Range, found: list[Record]) -> int:
        """Of what the table refuses a row is staged all the same, as if another one of that record were refused: none of them may be published."""
        stream_id, rows, rejects, n_filtered = piece.stream_id, [], [], 0
        for one in found:
            like = records.fate(*_place(piece), one.offset)
            expected = records.expected(*_place(piece), one.offset, corrected=self.corrected).rows
            rows += [(stream_id, one.offset, row) for row in expected]
            if like is Fate.FILTERED:
                n_filtered += 1
            elif not expected:
                step = {Fate.BROKEN: "decode", Fate.REFUSED: "transform"}.get(like, "store")
                bytes_of = (one.timestamp_ms, one.key, one.value, _kept(one))
                rejects.append((stream_id, one.offset, step, f"it is {like}", *bytes_of))
                rows += [(stream_id, one.offset, (1, 0, "a row", 1))] if step == "store" else []
        counts = []
        if found:
            counted = {"first_read": found[0].offset, "last_read": found[-1].offset, "n_read": len(found), "n_bytes": 9}
            counts.append({"stream_id": stream_id, **counted, "n_filtered": n_filtered})
        n_rows = self._ledger.copy(staging, task, rows)
        stored(self._ledger, attempt, counts=counts, rejects=rejects)
        return n_rows


class Truth:
    """What the logs of a topic held, and what may have become of it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def records(self, stream: Stream, start: int, end: int) -> Iterator[Record]:
        return records.records(records.incarnation_of(stream.topic_id), stream.partition, start, end)

    def expected(self, stream: Stream, record: Record) -> Expected:
        incarnation = records.incarnation_of(stream.topic_id)
        return records.expected(incarnation, stream.partition, record.offset, corrected=True)

    def end(self, stream: Stream) -> int:
        return self._cluster.topics[stream.topic].logs[stream.partition].end


def _place(piece: Range) -> tuple[int, int]:
    return records.incarnation_of(piece.topic_id), piece.partition


def _kept(one: Record) -> bytes | None:
    """Headers as the ledger keeps them."""
    if one.headers is None:
        return None
    pairs = [
        {"key": key, **({} if value is None else {"value": b64encode(value).decode()})} for key, value in one.headers
    ]
    return json.dumps(pairs).encode()
