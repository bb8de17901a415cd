"""Provide one pipeline over one topic, and the processes that work on it."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from shutil import rmtree
from typing import Any

from faults import checker, records
from faults.actions import Advance, Plan, Task, Write
from faults.checker.facts import Found, Violation
from faults.checker.snapshots import Reading
from faults.memory import MemoryBroker
from faults.operations import Arrive, Operation
from faults.plain_fold import wrong_states
from faults.processes.child import Errand, Migrate, Timing
from faults.processes.gate import Ended, Question
from faults.processes.ground import Ground
from faults.processes.lake import Lake
from faults.processes.process import LiveProcess, finished
from faults.processes.process_pipelines import lake_of, put_transform
from faults.processes.process_spark import Again
from faults.processes.record_runs import RUNS
from faults.simulation.simulated_kafka import SimulatedKafka
from faults.simulation.simulating import SimulatedTruth
from tideline.declaration.pipelines import Pipeline
from tideline.domain.requests import NewRecords, Request
from tideline.errors import FatalError
from tideline.ledger.reservations import Run


class Scene:
    """A pipeline with a table of its own.

    Args:
        ground: The environment of the worker.
        pipeline: The declaration.
        kafka: The Kafka that it reads.
        database: A database other than the worker's.
    """

    def __init__(
        self, ground: Ground, pipeline: Pipeline, kafka: SimulatedKafka, *, database: str | None = None
    ) -> None:
        self.ground = ground
        self.pipeline = pipeline
        self.kafka = kafka
        self.lake = Lake(lake_of(pipeline.folder), pipeline.name) if pipeline.sink.kind == "delta" else None
        self.url, self.proxied = ground.urls(database)
        self.corrected = False
        """Whether the transform has been corrected, before or after anything was loaded."""
        self.pruned = False
        self._numbers = count(1)

    def run(self) -> Run:
        """Return a new DAG run."""
        return Run(dag_id="ads", run_id=f"run {next(self._numbers)}")

    def start(
        self,
        *tasks: Task | Migrate,
        timing: Timing = Timing(),  # noqa: B008 - frozen
        again: Mapping[int, Again] | None = None,
    ) -> LiveProcess:
        """Start a process that waits before its first step."""
        errand = Errand(tasks=tasks, pipeline=self.pipeline, url=self.proxied, timing=timing, again=again or {})
        return LiveProcess(*self.ground.zygote.start(errand), self.answer)

    def run_tasks(self, *tasks: Task | Migrate) -> Ended:
        """Run tasks without faults, and return the result."""
        errand = Errand(tasks=tasks, pipeline=self.pipeline, url=self.url, watched=False)
        if self.url != self.ground.url:
            return finished(LiveProcess(*self.ground.zygote.start(errand), self.answer))
        return self.ground.helper.do(errand, self.answer)

    def load(self, request: Request | None = None) -> Run:
        """Load with one run, from plan to advance."""
        run = self.run()
        wanted = request or NewRecords()
        ended = self.run_tasks(Plan(run=run, request=wanted), Write(run=run, try_number=1), Advance(run=run))
        assert not ended.error, ended
        return run

    def arrive(self, count: int) -> None:
        """Append `count` records to each partition."""
        for partition in range(self.kafka.partitions):
            self.kafka.apply(Arrive(partition, count))

    def apply(self, operation: Operation) -> None:
        """Apply an operation to Kafka."""
        self.kafka.apply(operation)

    def answer(self, question: Question) -> Any:
        """Answer a question to Kafka."""
        if question.method == "read":
            topic, partition = question.arguments
            return self._holds(topic, partition)
        broker = MemoryBroker(self.kafka.cluster, self.pipeline.source)
        return getattr(broker, question.method)(*question.arguments, **question.named)

    def _holds(self, name: str, partition: int) -> tuple[int, int, int]:
        """Return the incarnation that has the name now, and the start and end of the partition's log."""
        topic = self.kafka.cluster.topics.get(name)
        if topic is None or partition >= len(topic.logs):
            raise FatalError(f"UnknownTopicOrPartition: {name}/{partition}", next_step="")
        log = topic.logs[partition]
        return records.incarnation_of(topic.topic_id), log.start, log.stable_end

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run one statement, outside of all processes under test."""
        return self.ground.query(sql, *parameters, url=self.url)

    def transform(self, *, corrected: bool) -> None:
        """Install the corrected transform or the refusing one."""
        put_transform(self.pipeline, corrected=corrected)
        self.corrected = self.corrected or corrected

    def pass_time(self, seconds: int, *, living: Collection[int] = ()) -> None:
        """Make the heartbeats of open attempts older by `seconds`, except those of the living processes, given by
        pid."""
        self.query(
            "WITH silent AS (SELECT attempt FROM tideline.attempt JOIN tideline.batch USING (batch_id, attempt)"
            "                WHERE pipeline = %s AND ended_at IS NULL AND pid <> ALL (%s) FOR UPDATE OF attempt SKIP LOCKED)"
            " UPDATE tideline.attempt a SET heartbeat_at = heartbeat_at - make_interval(secs => %s) FROM silent WHERE a.attempt = silent.attempt",
            self.pipeline.name,
            list(living),
            seconds,
        )

    def grow_old(self) -> None:
        """Make all events 400 days older. Only a test may do this: triggers refuse every change of an event."""
        self.query(
            "SET session_replication_role = replica;"
            "UPDATE tideline.event SET at = at - interval '400 days' WHERE pipeline = %s;"
            "SET session_replication_role = origin",
            self.pipeline.name,
        )
        self.pruned = True

    def staging(self) -> list[str]:
        """Return the staging tables that still exist."""
        return [
            name
            for (name,) in self.query(
                "SELECT tablename::text FROM pg_tables"
                " JOIN tideline.attempt ON starts_with(tablename, 'attempt_' || replace(attempt.attempt::text, '-', ''))"
                " JOIN tideline.batch USING (batch_id)"
                " WHERE schemaname = 'tideline_staging' AND pipeline = %s",
                self.pipeline.name,
            )
        ]

    def forget(self) -> None:
        """Drop the tables of the pipeline. Only its history stays."""
        rmtree(lake_of(self.pipeline.folder), ignore_errors=True)
        for table in (self._table, *(f"tideline_staging.{name}" for name in self.staging())):
            self.query(f"DROP TABLE IF EXISTS {table}")

    @property
    def _table(self) -> str:
        """Return the output table, which does not exist if the output is a lake."""
        return f"ads.{self.pipeline.name}"

    def violations(self, *, quiet: bool) -> list[Violation]:
        """Return what the checker finds."""
        truth = SimulatedTruth(self.kafka, partial(records.expected, corrected=self.corrected))
        with self._found() as found:
            seen = list(checker.violations(self._of_records(found), truth, quiet=quiet, pruned=self.pruned))
            if self.pipeline.state:
                seen += wrong_states(found, RUNS)
        return [*self.lake.log.broken, *seen] if self.lake else seen

    def everything(self) -> dict[str, list[Any]]:
        """Return all state that a frozen process must not change when it continues. The history is left out: it may
        record that the process was refused."""
        with self._found() as found:
            return {
                "streams": list(found.streams),
                "batches": list(found.batches),
                "ranges": list(found.ranges),
                "coverage": sorted(found.coverage, key=lambda piece: (piece.stream_id, piece.start)),
                "commits": list(found.commits or ()),
                "attempts": sorted(found.attempts, key=lambda attempt: (attempt.batch_id, attempt.fence)),
                "rows": [row for stream in found.streams for row in found.rows(stream)],
                "rejects": [reject for stream in found.streams for reject in found.rejects(stream)],
                "folded": list(found.folded),
                "states": sorted(found.states.values()),
                "positions": sorted(found.positions.values()),
                "undo": sorted(found.undo.items()),
            }

    def shown(self) -> list[tuple[Any, ...]]:
        """Return what readers see: the output rows and the rejected records."""
        with self._found() as found:
            return [
                *((row.offset, row.values) for stream in found.streams for row in found.rows(stream)),
                *((reject.offset, reject.value) for stream in found.streams for reject in found.rejects(stream)),
                *(state[:-1] for state in sorted(found.states.values())),
            ]

    def _of_records(self, found: Found) -> Found:
        """Leave out the rows of timers, which `wrong_states` compares."""
        return RUNS.without_expired(found) if self.pipeline.state else found

    @contextmanager
    def _found(self) -> Iterator[Found]:
        """Read the state as `checker.read` does, in a session that is kept open."""
        session = self.ground.snapshot(self.url)
        try:
            found = Reading(session, self.pipeline.name, self._table).found(records.OUTPUT)
            if self.lake:
                self.lake.log.read()
            yield self.lake.log.shown_in(found) if self.lake else found
        finally:
            session.rollback()
