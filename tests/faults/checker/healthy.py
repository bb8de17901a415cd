"""Builds a ledger without violations after every operation.

It uses the real verbs over a log in memory; a substitute for the Spark job writes the rows.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import count
from typing import Any
from uuid import UUID

from psycopg2.extras import execute_values

from faults import records
from faults.checker import Remembered
from faults.checker.facts import WRITTEN, Expected, Record, Stream
from faults.memory import Cluster, MemoryBroker
from faults.memory.memory_broker import Topic
from given_ledger.ledgers import query
from given_ledger.planners import declared
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, NewRecords, Ranges, Request
from tideline.domain.states import BatchKind
from tideline.errors import SupersededError
from tideline.ledger import attempts
from tideline.ledger.attempts import Attempt, Range, Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.publications import Announcer
from tideline.ledger.publishing import Written
from tideline.ledger.reservations import Run
from tideline.spark_jobs.readers import kept_rejects

NAME, TABLE = "harness", "ads.output"
WHY = "because"
EVERYTHING = 1_000


def truth(topic: Topic) -> Remembered:
    """Return all records that ever existed; the transform was corrected in between."""
    places = [(incarnation, partition) for incarnation in (1, 2, 3) for partition in range(3)]
    return Remembered(
        {
            (UUID(int=incarnation), partition): list(records.records(incarnation, partition, 0, EVERYTHING))
            for incarnation, partition in places
        },
        expected=lambda stream, record: oracle(stream, record, corrected=True),
        ends={(topic.topic_id, partition): end for partition, end in enumerate(topic.ends)},
    )


def oracle(stream: Stream | Range, record: Record, *, corrected: bool) -> Expected:
    incarnation = records.incarnation_of(stream.topic_id)
    return records.expected(incarnation, stream.partition, record.offset, corrected=corrected)


class Loads:
    """One pipeline whose runs write what the oracle returns."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.cluster = Cluster()
        self.cluster.create("ads", 10, 5, 0)
        self.pipeline = declared(
            "nowhere:9092",
            "ads",
            name=NAME,
            start="latest",
            source={"gaps": "allowed"},
            batch_records=12,
            run_batches=20,
        )
        self.broker = MemoryBroker(self.cluster, self.pipeline.source)
        self.corrected = False
        self._runs = count(1)
        query(ledger, records.TARGET)
        query(ledger, "CREATE TABLE ads.asset_event (batch_id bigint, attempt uuid)")

    @property
    def topic(self) -> Topic:
        """Return the current incarnation: the topic may have been created again."""
        return self.cluster.topics["ads"]

    def arrive(self, *counts: int) -> None:
        """Append this many records to each partition."""
        for log, number in zip(self.topic.logs, counts, strict=True):
            log.append(number)

    def plan(self, request: Request) -> tuple[Run, list[int]]:
        run = Run(dag_id=NAME, run_id=f"run {next(self._runs)}")
        return run, flow.plan(self.ledger, self.broker, self.pipeline, run, request, reason=WHY).batch_ids

    def run(self, request: Request | None = None) -> list[int]:
        """Execute a run from plan to advance; return its batches."""
        run, batch_ids = self.plan(request or NewRecords())
        for batch_id in batch_ids:
            self.publish(self.claim(batch_id))
        flow.advance(self.ledger, NAME, run)
        self._announce(run)
        return batch_ids

    def _announce(self, run: Run) -> None:
        announcer = Announcer(dag_id=run.dag_id, run_id=run.run_id, task_id="announce")
        for one in flow.announce(self.ledger, NAME, announcer, self):
            query(self.ledger, "INSERT INTO ads.asset_event VALUES (%s, %s)", one.batch_id, one.attempt)

    def may_succeed(self, announcer: Announcer) -> bool:
        return False

    def announced(self, since: datetime) -> set[UUID]:
        return {attempt for (attempt,) in query(self.ledger, "SELECT attempt FROM ads.asset_event")}

    def claim(self, batch_id: int) -> Attempt:
        writer = Writer(dag_id=NAME, run_id="writer", task_id="write", try_number=1)
        claimed = attempts.claim(self.ledger, batch_id, writer, stale_after_seconds=60)
        assert isinstance(claimed, Attempt)
        return claimed

    def publish(self, attempt: Attempt) -> None:
        taken = {piece.stream_id: list(self._read(attempt, piece)) for piece in attempt.ranges}
        written: dict[int, list[tuple[Record, Expected]]] = {}
        for piece in attempt.ranges:
            fates = [(record, oracle(piece, record, corrected=self.corrected)) for record in taken[piece.stream_id]]
            rejected = [record for record, expected in fates if not expected.fates - {"rejected"}]
            written[piece.stream_id] = [(record, expected) for record, expected in fates if WRITTEN in expected.fates]
            self._stage(attempt, piece, taken[piece.stream_id], rejected, n_written=len(written[piece.stream_id]))

        def insert_output(ledger: Ledger) -> Written:
            for piece in attempt.ranges:
                self._insert(ledger, attempt, piece, written[piece.stream_id])
            offsets = [(stream_id, record.offset) for stream_id, pairs in written.items() for record, _ in pairs]
            return Written(
                n_written={stream_id: len(pairs) for stream_id, pairs in written.items()},
                offsets=offsets if attempt.kind is BatchKind.REDRIVE else (),
            )

        flow.publish(self.ledger, self.broker, self.pipeline, attempt, insert_output, filtered_by_difference=False)

    def _read(self, attempt: Attempt, piece: Range) -> Iterator[Record]:
        incarnation = records.incarnation_of(piece.topic_id)
        found = records.records(incarnation, piece.partition, piece.offsets.start, piece.offsets.end)
        if attempt.kind is not BatchKind.REDRIVE:
            return found
        rows = kept_rejects.read_slice(self.ledger, attempt, piece.stream_id, piece.offsets.start, piece.offsets.end)
        taken = {row["kafka_offset"] for row in rows}
        return (record for record in found if record.offset in taken)

    def _stage(
        self, attempt: Attempt, piece: Range, taken: Sequence[Record], rejected: Sequence[Record], *, n_written: int
    ) -> None:
        if not taken:
            return
        with self.ledger.transaction():
            self.ledger.run(
                "stage_counts",
                attempt=attempt.attempt,
                stream_ids=[piece.stream_id],
                first_read=[taken[0].offset],
                last_read=[taken[-1].offset],
                n_read=[len(taken)],
                n_filtered=[len(taken) - n_written - len(rejected)],
                n_bytes=[0],
            )
            self.ledger.run(
                "stage_rejects",
                attempt=attempt.attempt,
                stream_ids=[piece.stream_id] * len(rejected),
                offsets=[record.offset for record in rejected],
                steps=["decode"] * len(rejected),
                reasons=[WHY] * len(rejected),
                timestamps_ms=[record.timestamp_ms for record in rejected],
                keys=[record.key for record in rejected],
                values=[record.value for record in rejected],
                headers=[kept_headers(record) for record in rejected],
            )

    def _insert(
        self, ledger: Ledger, attempt: Attempt, piece: Range, written: Sequence[tuple[Record, Expected]]
    ) -> None:
        batch_of = self._rejected_by(piece) if attempt.kind is BatchKind.REDRIVE else {}
        with ledger.connection.cursor() as cursor:
            if attempt.kind is BatchKind.REPLAY:
                cursor.execute(
                    "DELETE FROM ads.output WHERE kafka_topic_id = %s AND kafka_partition = %s AND kafka_offset BETWEEN %s AND %s",
                    (piece.topic_id, piece.partition, piece.offsets.start, piece.offsets.end - 1),
                )
            execute_values(
                cursor,
                "INSERT INTO ads.output (id, item, name, price, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch) VALUES %s",
                [
                    (
                        *row,
                        piece.topic_id,
                        piece.partition,
                        record.offset,
                        batch_of.get(record.offset, attempt.batch_id),
                    )
                    for record, expected in written
                    for row in expected.rows
                ],
            )

    def _rejected_by(self, piece: Range) -> dict[int, int]:
        """Return offsets and batches of current rejects; called within the publishing transaction."""
        with self.ledger.connection.cursor() as cursor:
            cursor.execute(
                "SELECT kafka_offset, batch_id FROM tideline.reject WHERE stream_id = %s", (piece.stream_id,)
            )
            return dict(cursor.fetchall())


def kept_headers(record: Record) -> bytes | None:
    """Encode headers as the ledger keeps them: a null value is left out."""
    if record.headers is None:
        return None
    kept: list[dict[str, Any]] = [
        {"key": key} if value is None else {"key": key, "value": b64encode(value).decode()}
        for key, value in record.headers
    ]
    return json.dumps(kept).encode()


def ranges(partition: int, start: int, end: int, *, replace: bool = False) -> Ranges:
    return Ranges(ranges=(NamedRange("ads", partition, OffsetRange(start, end)),), replace=replace)


def carry_out_everything(loads: Loads) -> None:
    """Carry out every operation on a ledger. At the end no batch is open and the heads are at the end of the log."""
    ledger, broker, pipeline = loads.ledger, loads.broker, loads.pipeline
    assert loads.run() == []  # the streams begin at the latest offsets
    loads.arrive(30, 20, 12)
    _stumble(loads)
    loads.run(ranges(0, 4, 8))  # before the start
    loads.arrive(30, 0, 0)
    flow.skip(ledger, broker, pipeline, NamedRange("ads", 0, OffsetRange(50, 60)), reason=WHY)
    loads.run()
    loads.run(ranges(0, 53, 55))  # a backfill splits the hole
    loads.run(ranges(0, 20, 26, replace=True))
    loads.run(ranges(0, 18, 24, replace=True))  # one replay takes from another
    loads.run(ranges(0, 53, 55, replace=True))  # the backfill owns nothing now
    loads.run(ranges(1, 5, 25, replace=True))
    loads.arrive(10, 20, 0)
    loads.topic.logs[1].delete_before(32)
    loads.plan(NewRecords())  # retention has taken what was never read: the stream stops
    flow.accept_loss(ledger, broker, pipeline, "ads", 1, reason=WHY)
    loads.run()
    loads.corrected = True
    loads.run(KeptRejects())
    loads.cluster.create("ads", 20, 13, 0)
    flow.adopt_topic(ledger, broker, pipeline, "ads", reason=WHY)
    loads.run()
    loads.run(ranges(0, 13, 14, replace=True))


def _stumble(loads: Loads) -> None:
    """Plan a batch whose attempts fail, lose their claim and are refused; and one that is abandoned and planned again."""
    _, (first, second, *rest) = loads.plan(NewRecords())
    attempts.fail(loads.ledger, loads.claim(first), "a fault")
    late = loads.claim(first)
    loads.publish(loads.claim(first))
    try:
        loads.publish(late)
    except SupersededError:
        pass
    else:
        raise AssertionError("an attempt that had lost its claim has published")
    flow.abandon(loads.ledger, second, reason=WHY)
    for batch_id in reversed(rest):
        loads.publish(loads.claim(batch_id))
    loads.run()


def stop_halfway(loads: Loads) -> None:
    """Leave one batch in each state that a crash may leave, including one that is published and waits for an earlier one."""
    loads.arrive(60, 0, 0)
    _, (planned, writing, failed, published, *_) = loads.plan(NewRecords())
    loads.claim(writing)
    attempts.fail(loads.ledger, loads.claim(failed), "a fault")
    loads.publish(loads.claim(published))
    assert planned < published
