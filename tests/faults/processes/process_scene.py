"""One pipeline over one topic, and the processes that work on it."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

from faults import checker, records
from faults.actions import Advance, Plan, Task, Write
from faults.checker.facts import Found, Violation
from faults.checker.snapshots import Reading
from faults.memory import MemoryBroker
from faults.operations import Arrive, Operation
from faults.processes.child import Errand, Migrate, Timing
from faults.processes.gate import Ended, Question
from faults.processes.ground import Ground
from faults.processes.process import LiveProcess, finished
from faults.processes.process_pipelines import put_transform
from faults.processes.process_spark import Again
from faults.simulation.simulated_kafka import SimulatedKafka
from faults.simulation.simulating import SimulatedTruth
from tideline.declaration.pipelines import Pipeline
from tideline.domain.requests import NewRecords, Request
from tideline.errors import FatalError
from tideline.ledger.reservations import Run


class Scene:
    """A pipeline of its own.

    Args:
        ground: Where.
        pipeline: What is declared.
        kafka: What it reads.
        database: Another one than the ground's.
    """

    def __init__(
        self, ground: Ground, pipeline: Pipeline, kafka: SimulatedKafka, *, database: str | None = None
    ) -> None:
        self.ground = ground
        self.pipeline = pipeline
        self.kafka = kafka
        self.url, self.proxied = ground.urls(database)
        self.corrected = False
        """Whether somebody has corrected the transform, before or after anything was loaded."""
        self.pruned = False
        self._numbers = count(1)

    def run(self) -> Run:
        """A new DAG run."""
        return Run(dag_id="ads", run_id=f"run {next(self._numbers)}")

    def start(
        self,
        *tasks: Task | Migrate,
        timing: Timing = Timing(),  # noqa: B008 - frozen
        again: Mapping[int, Again] | None = None,
    ) -> LiveProcess:
        """A process that waits before its first step."""
        errand = Errand(tasks=tasks, pipeline=self.pipeline, url=self.proxied, timing=timing, again=again or {})
        return LiveProcess(*self.ground.zygote.start(errand), self.answer)

    def through(self, *tasks: Task | Migrate) -> Ended:
        """What comes of tasks that nothing happens to."""
        errand = Errand(tasks=tasks, pipeline=self.pipeline, url=self.url, watched=False)
        if self.url != self.ground.url:
            return finished(LiveProcess(*self.ground.zygote.start(errand), self.answer))
        return self.ground.stagehand.do(errand, self.answer)

    def load(self, request: Request | None = None) -> Run:
        """A run, from plan to advance."""
        run = self.run()
        asked = request or NewRecords()
        ended = self.through(Plan(run=run, request=asked), Write(run=run, try_number=1), Advance(run=run))
        assert not ended.error, ended
        return run

    def arrive(self, count: int) -> None:
        """So many records in each partition."""
        for partition in range(self.kafka.partitions):
            self.kafka.happen(Arrive(partition, count))

    def happen(self, operation: Operation) -> None:
        """To Kafka."""
        self.kafka.happen(operation)

    def answer(self, question: Question) -> Any:
        """What Kafka says."""
        if question.method == "read":
            topic, partition = question.arguments
            return self._holds(topic, partition)
        broker = MemoryBroker(self.kafka.cluster, self.pipeline.source)
        return getattr(broker, question.method)(*question.arguments)

    def _holds(self, name: str, partition: int) -> tuple[int, int, int]:
        """The incarnation that has the name now, and where its log starts and ends."""
        topic = self.kafka.cluster.topics.get(name)
        if topic is None or partition >= len(topic.logs):
            raise FatalError(f"UnknownTopicOrPartition: {name}/{partition}", next_step="")
        log = topic.logs[partition]
        return records.incarnation_of(topic.topic_id), log.start, log.stable_end

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """One statement, from outside of all that is tested."""
        return self.ground.query(sql, *parameters, url=self.url)

    def transform(self, *, corrected: bool) -> None:
        """Put one of the two in place."""
        put_transform(self.pipeline.folder, corrected=corrected)
        self.corrected = self.corrected or corrected

    def pass_time(self, seconds: int, *, living: Collection[int] = ()) -> None:
        """For the hearts of all but those that live: pids."""
        self.query(
            "WITH silent AS (SELECT attempt FROM tideline.attempt JOIN tideline.batch USING (batch_id, attempt)"
            "                WHERE pipeline = %s AND ended_at IS NULL AND pid <> ALL (%s) FOR UPDATE OF attempt SKIP LOCKED)"
            " UPDATE tideline.attempt a SET heartbeat_at = heartbeat_at - make_interval(secs => %s) FROM silent WHERE a.attempt = silent.attempt",
            self.pipeline.name,
            list(living),
            seconds,
        )

    def grow_old(self) -> None:
        """Let all events be of last year; only a test may: triggers refuse every change."""
        self.query(
            "SET session_replication_role = replica;"
            "UPDATE tideline.event SET at = at - interval '400 days' WHERE pipeline = %s;"
            "SET session_replication_role = origin",
            self.pipeline.name,
        )
        self.pruned = True

    def staging(self) -> list[str]:
        """Tables of attempts that nobody has dropped."""
        return [
            name
            for (name,) in self.query(
                r"SELECT tablename::text FROM pg_tables JOIN tideline.batch ON tablename LIKE 'batch\_' || batch_id || '\_attempt\_%%'"
                " WHERE schemaname = 'tideline_staging' AND pipeline = %s",
                self.pipeline.name,
            )
        ]

    def forget(self) -> None:
        """Drop its tables: what stays of a pipeline is its history."""
        for table in (self.pipeline.sink.table, *(f"tideline_staging.{name}" for name in self.staging())):
            self.query(f"DROP TABLE IF EXISTS {table}")

    def violations(self, *, quiet: bool) -> list[Violation]:
        """What the checker finds."""
        truth = SimulatedTruth(self.kafka, partial(records.expected, corrected=self.corrected))
        with self._found() as found:
            return list(checker.violations(found, truth, quiet=quiet, pruned=self.pruned))

    def everything(self) -> dict[str, list[Any]]:
        """All that a frozen process must not change when it comes back; the history may say that it was refused."""
        with self._found() as found:
            return {
                "streams": list(found.streams),
                "batches": list(found.batches),
                "ranges": list(found.ranges),
                "coverage": sorted(found.coverage, key=lambda piece: (piece.stream_id, piece.start)),
                "attempts": sorted(found.attempts, key=lambda attempt: (attempt.batch_id, attempt.fence)),
                "rows": [row for stream in found.streams for row in found.rows(stream)],
                "rejects": [reject for stream in found.streams for reject in found.rejects(stream)],
            }

    def shown(self) -> list[tuple[Any, ...]]:
        """What readers see of the output, and the records that were rejected."""
        with self._found() as found:
            return [
                *((row.offset, row.values) for stream in found.streams for row in found.rows(stream)),
                *((reject.offset, reject.value) for stream in found.streams for reject in found.rejects(stream)),
            ]

    @contextmanager
    def _found(self) -> Iterator[Found]:
        """As `checker.read` gives it, of a session that is kept."""
        session = self.ground.snapshot(self.url)
        try:
            yield Reading(session, self.pipeline.name, self.pipeline.sink.table).found(records.OUTPUT)
        finally:
            session.rollback()
