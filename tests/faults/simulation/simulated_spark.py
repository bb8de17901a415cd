"""Simulate what Spark does for a batch: tasks that read, decode, transform and COPY into staging. Some of them die
and run again.

Everything around the tasks is the real job.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

from pyspark.errors import PySparkException

from faults import records
from faults.checker.facts import Record
from faults.memory import Cluster, MemoryLedger, MemorySink, record
from faults.simulation.actors import SPARK, Scheduler
from faults.simulation.simulated_outside import SimulatedOutput, SimulatedOutside
from faults.simulation.simulated_records import Outcome, as_reject, headers_of, outcome_of
from tideline.declaration.pipelines import Pipeline
from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind
from tideline.ledger.attempts import Attempt, Range
from tideline.sinks.postgres.sink import TableOutput
from tideline.sinks.sink import Publication, Refused, Winner
from tideline.spark_jobs import publishing, write_batches
from tideline.spark_jobs.readers import kept_rejects

Read = Callable[[], Sequence[Record]]


class SimulatedSpark:
    """The executors of all jobs, and the parts of the driver that know them."""

    def __init__(
        self,
        scheduler: Scheduler,
        cluster: Cluster,
        sink: MemorySink,
        broken: list[str],
        pipelines: Sequence[str],
        *,
        frame: bool,
        outside: SimulatedOutside | None = None,
    ) -> None:
        self.outside = outside
        self.refuses = True
        """Whether transform.py still refuses a name."""
        self.split_records = 5
        """Most offsets that one task reads."""
        self._broken = broken
        self._frame = frame
        self._shares = {name: (number, len(pipelines)) for number, name in enumerate(pipelines)}
        """The share of each pipeline: its transform filters out the records of the other pipelines."""
        self._scheduler = scheduler
        self._cluster = cluster
        self._sink = sink
        self._tasks = 0

    def prepared(
        self, _: MemoryLedger, broker: Any, pipeline: Pipeline, attempt: Attempt, *, spark: Any, read: Any
    ) -> SimpleNamespace:
        """Replace `preparation.prepared`."""
        output: Any = TableOutput(target=self._sink.target, attempt=attempt)
        if self.outside is not None:
            output = SimulatedOutput(self.outside, output, self._sink.key)
        return SimpleNamespace(broker=broker, pipeline=pipeline, attempt=attempt, output=output)

    def session(self, _: str) -> SimpleNamespace:
        """Replace `session.session`."""
        return SimpleNamespace(sparkContext=SimpleNamespace(cancelAllJobs=self._scheduler.current.cancel))

    def write(self, ledger: MemoryLedger, loading: SimpleNamespace) -> None:
        """Replace `write_batches._write`, with the same steps."""
        attempt = loading.attempt
        refuses = self.refuses  # transform.py is loaded when the job begins
        staging = self._sink.create_staging(ledger, attempt)
        slices = self._slices(ledger, attempt)
        with of_executors():
            tasks = [self._task(attempt, staging, *part, refuses=refuses) for part in slices]

        def reject(refused: Sequence[Refused]) -> int:
            with of_executors():
                return self._reject_again(ledger, attempt, refused)

        publication = Publication(
            ledger=ledger,
            broker=loading.broker,
            pipeline=loading.pipeline,
            attempt=attempt,
            winners=[Winner(*task) for task in tasks],
            reject=reject,
            filtered_by_difference=self._frame,
        )
        with self._replayed(attempt):
            publishing.publish(publication, loading.output)
        write_batches._clear(ledger, attempt, loading.output)

    def _reject_again(self, ledger: MemoryLedger, attempt: Attempt, refused: Sequence[Refused]) -> int:
        """Read the records that the table refused once more and reject them; return their number."""
        reasons = {(stream_id, offset): reason for stream_id, offset, reason in refused}
        n_rejected = 0
        for stream_id, read in self._slices(ledger, attempt):
            self._step()
            found = [one for one in read() if (stream_id, one.offset) in reasons]
            rejects = [
                as_reject(stream_id, one, Outcome(step="store", reason=reasons[stream_id, one.offset])) for one in found
            ]
            if rejects:
                with MemoryLedger(self._scheduler.database, actor="spark task") as session:
                    record(session, attempt, rejects=rejects)
            n_rejected += len(rejects)
        return n_rejected

    @contextmanager
    def _replayed(self, attempt: Attempt) -> Iterator[None]:
        """Check that a replay with an unchanged transform changes no row and no reject."""
        unchanged = attempt.kind is BatchKind.REPLAY and self.refuses
        if not unchanged:
            yield
            return
        before = self._loaded(attempt)
        yield
        if not self.refuses:
            return  # corrected meanwhile: other runs may have re-driven rejects
        if self._loaded(attempt) != before:
            self._broken.append(f"{attempt} replayed what is loaded, and what is loaded has changed")
        self._scheduler.tally.replays_unchanged += bool(before)

    def _loaded(self, attempt: Attempt) -> list[tuple[Any, ...]]:
        """Return the rows and rejects of its offsets, without their batch and attempt."""
        database, target = self._scheduler.database, self._sink.target
        rows = self.outside.rows if self.outside else database.outputs[target.schema, target.table].rows
        found: list[tuple[Any, ...]] = []
        for piece in attempt.ranges:
            place = piece.topic_id, piece.partition
            found += [
                (*key, row.values)
                for key, row in rows.items()
                if key[:2] == place
                and key[2] in piece.offsets
                and database.batches[row.batch_id].pipeline == attempt.pipeline
            ]
            found += [
                (*key, *reject[3:-1])
                for key, reject in database.rejects.items()
                if key[0] == piece.stream_id and key[1] in piece.offsets
            ]
        return sorted(found, key=repr)

    def _slices(self, ledger: MemoryLedger, attempt: Attempt) -> list[tuple[int, Read]]:
        """Return the stream and the reader of each task."""
        if attempt.kind is BatchKind.REDRIVE:
            with ledger.transaction():
                ledger.rows("find_batch", batch_id=attempt.batch_id)
                taken = sorted(ledger.database.redrives.get(attempt.batch_id, ()))
            return [
                (self._stream_of_place(attempt, stream_id), self._stored(attempt, list(places)))
                for stream_id, places in groupby(taken, key=itemgetter(0))
            ]
        return [
            (
                piece.stream_id,
                self._logged(piece, OffsetRange(start, min(start + self.split_records, piece.offsets.end))),
            )
            for piece in attempt.ranges
            for start in range(piece.offsets.start, piece.offsets.end, self.split_records)
        ]

    def _stream_of_place(self, attempt: Attempt, stream_id: int) -> int:
        """Return the stream that the job assigns to a record by topic and partition, which is all it knows."""
        stream = self._scheduler.database.streams[stream_id]
        return {(piece.topic, piece.partition): piece.stream_id for piece in attempt.ranges}[
            stream.topic, stream.partition
        ]

    def _logged(self, piece: Range, offsets: OffsetRange) -> Read:
        """Return a reader of a slice of the log.

        It reads the topic that has the name now, as Spark knows no topic ids. If records are gone, it fails or
        silently leaves them out.
        """

        def read() -> list[Record]:
            topic = self._cluster.topics.get(piece.topic)
            if topic is None or piece.partition >= len(topic.logs):
                raise PySparkException(
                    "UnknownTopicOrPartitionException: This server does not host this topic-partition."
                )
            log = topic.logs[piece.partition]
            if log.stable_end < offsets.end:
                raise PySparkException("TimeoutException: Cannot fetch record in 30000 milliseconds")
            # If no record of the slice is left, there is no later record to continue with, so it fails.
            if log.start >= offsets.end or (log.start > offsets.start and self._tasks % 2):
                raise PySparkException("OffsetOutOfRangeException: Some data may have been lost")
            incarnation = records.incarnation_of(topic.topic_id)
            return list(records.records(incarnation, piece.partition, max(offsets.start, log.start), offsets.end))

        return read

    def _stored(self, attempt: Attempt, places: Sequence[tuple[int, int]]) -> Read:
        """Return a reader of the remaining rejects, from the kept bytes."""
        stream_id, start, end = *places[0], places[-1][1] + 1

        def read() -> list[Record]:
            with MemoryLedger(self._scheduler.database, actor="spark task") as ledger:
                kept = kept_rejects.read_slice(ledger, attempt, stream_id, start, end)
            if self._tasks % 13 == 6:
                kept = kept[1:]  # a reader that silently leaves a reject out
            return [
                Record(r["kafka_offset"], r["kafka_timestamp_ms"], r["key"], r["value"], headers_of(r["headers"]))
                for r in kept
            ]

        return read

    def _task(self, attempt: Attempt, staging: str, stream_id: int, read: Read, *, refuses: bool) -> tuple[int, int]:
        """Run the tasks of one slice until one wins; return its id and the number of rows that it has staged."""
        while True:
            self._tasks += 1
            task = self._tasks
            self._step()
            share = self._shares[attempt.pipeline]
            found = [
                (one, outcome_of(one.value, refuses=refuses, mine=records.is_in_share(share, one.offset)))
                for one in read()
            ]
            rows = [(stream_id, one.offset, row) for one, passed in found if not passed.step for row in passed.rows]
            dies = task % 11
            self._copy(staging, task, rows[: len(rows) // 2] if dies == 0 else rows)
            if dies in {0, 1}:
                continue  # an executor was lost; the rows it has staged stay behind
            self._record(attempt, stream_id, found)
            if dies != 2:
                return task, len(rows)

    def _step(self) -> None:
        process = self._scheduler.current
        process.point(SPARK)
        if process.is_cancelled:
            raise PySparkException("Job 0 cancelled as part of cancellation of all jobs")

    def _copy(self, staging: str, task: int, rows: Sequence[tuple[int, int, tuple[Any, ...]]]) -> None:
        self._sink.copy(staging, task, rows)
        self._step()

    def _record(self, attempt: Attempt, stream_id: int, found: Sequence[tuple[Record, Outcome]]) -> None:
        """Record rejects and counts of a task. Records that the table refused are stored first, in a transaction of
        their own, as in the job."""
        refused = [as_reject(stream_id, one, passed) for one, passed in found if passed.step == "store"]
        before = [as_reject(stream_id, one, passed) for one, passed in found if passed.step in {"decode", "transform"}]
        counts = [] if not found else [{
            "stream_id": stream_id,
            "first_read": found[0][0].offset,
            "last_read": found[-1][0].offset,
            "n_read": len(found),
            "n_filtered": 0 if self._frame else sum(not passed.step and not passed.rows for _, passed in found),
            "n_bytes": sum(len(one.key or b"") + len(one.value or b"") for one, _ in found),
        }]  # fmt: skip
        with MemoryLedger(self._scheduler.database, actor="spark task") as ledger:
            record(ledger, attempt, rejects=refused)
            record(ledger, attempt, rejects=before, counts=counts)


@contextmanager
def of_executors() -> Iterator[None]:
    """Turn the errors of an executor into text, as Spark does."""
    try:
        yield
    except PySparkException:
        raise
    except Exception as error:
        raise PySparkException(f"PythonException: {error}") from error
