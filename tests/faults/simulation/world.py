"""Provide the stage of the simulation: ledger, brokers, clock and processes in one Python process.

The same schedule always gives the same play.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from faults import records
from faults.actions import Abandon, Advance, Plan, Rewind, Task, actor, perform, pipeline_of
from faults.checker.index import PUBLISHED
from faults.memory import MemoryBroker, MemoryDatabase, MemoryLedger, MemorySink, batches
from faults.operations import (
    AllowGaps,
    Correct,
    CrashServer,
    CutLog,
    Heal,
    Hold,
    KeepLedger,
    Land,
    Lose,
    Operation,
    Overwrite,
    PassTime,
    RestoreLedger,
    SwapCluster,
)
from faults.schedule_runner import MANY
from faults.schedules import Beginning
from faults.simulation import simulated_promises
from faults.simulation.actors import ASK, COMMITS, Scheduler, SimulatedHeartbeat, SimulatedProcess
from faults.simulation.commit_checks import Watcher
from faults.simulation.losses import Loss, Losses
from faults.simulation.replacing import replaced
from faults.simulation.simulated_airflow import SimulatedAirflow
from faults.simulation.simulated_environment import NeverPasses, SimulatedSurroundings
from faults.simulation.simulated_folding import FoldingSpark
from faults.simulation.simulated_kafka import SimulatedKafka
from faults.simulation.simulated_outside import SimulatedOutside
from faults.simulation.simulated_pipelines import pipelines
from faults.simulation.simulated_spark import SimulatedSpark
from faults.simulation.stop_checks import held_back, presumed, unfounded
from faults.simulation.takeover_checks import hurried, robbed
from faults.simulation.tally import Tally
from tideline import flow, job_log
from tideline.declaration import Limits
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange
from tideline.flow import settling, writing
from tideline.ledger.publications import Announcer
from tideline.sinks.delta.kind import DeltaTables
from tideline.spark_jobs import supervision, write_batches

TABLE = "ads.output"
LARGE = Limits(batch_records=200, run_batches=20)


class World:
    """The whole simulated environment of one schedule."""

    def __init__(
        self, beginning: Beginning, tally: Tally, database: Callable[..., MemoryDatabase] | None = None
    ) -> None:
        self.tally = tally
        self.database = (database or MemoryDatabase)(self._on_statement)
        self.broken: list[str] = []
        """Violations found so far."""
        self.watcher = Watcher(self.database, tally, self.broken)
        self.scheduler = Scheduler(self.database, tally)
        self.airflow = SimulatedAirflow(self._on_call)
        self.kafka = SimulatedKafka(self._on_question, beginning.incarnation, beginning.ends)
        unique = ("id",) if beginning.unique else ()
        self.sink = MemorySink(self.database, TABLE, records.OUTPUT, item="item", unique=unique)
        self.expected = partial(records.expected, unique=beginning.unique)
        """Returns the expected outcome of a record."""
        self.declared = pipelines(beginning)
        """The declared pipelines by name."""
        self.outside = SimulatedOutside(self.scheduler, self.broken) if beginning.outside else None
        executors = SimulatedSpark if beginning.visits is None else FoldingSpark
        self.spark = executors(
            self.scheduler,
            self.kafka.cluster,
            self.sink,
            self.broken,
            self.pipelines(),
            frame=beginning.frame,
            outside=self.outside,
        )
        self.processes: list[SimulatedProcess] = []
        self.losses = Losses(self.database, self.kafka)
        self._planning: MemoryLedger | None = None
        """The session whose transaction plans the batches of a run."""

    def start(self, task: Task) -> SimulatedProcess:
        """See `faults.schedule_runner.Stage`."""
        process = SimulatedProcess(self.scheduler, partial(self._perform, task), type(task).__name__)
        self.processes.append(process)
        return process

    def _perform(self, task: Task) -> list[int] | None:
        self.scheduler.current.writes_nothing = isinstance(task, Rewind) and task.dry_run
        with MemoryLedger(self.database, actor=actor(task)) as ledger:
            pipeline = self.declared[pipeline_of(task)]
            broker = MemoryBroker(self.kafka.cluster, pipeline.source)
            before, restores = list[int](), self.losses.restores
            if (
                isinstance(task, Plan | Advance) and self.database.holder is None
            ):  # else the visible state may be rolled back
                before = simulated_promises.given_to(self.database, pipeline.name, task.run)
            running = self.scheduler.running
            check = partial(self._check_written, restores)
            at = SimulatedSurroundings(ledger, broker, pipeline, check, self.airflow, running)
            result = perform(task, at)
            if self.database.holder is None and self.losses.restores == restores:
                self.broken += simulated_promises.kept(self.database, pipeline.name, task, before, result)
            return result

    def _check_written(self, restores: int, batch_ids: Sequence[int], writer: Any) -> None:
        if self.database.holder is None and self.losses.restores == restores:
            given = simulated_promises.given_to(self.database, writer.dag_id, writer)
            self.broken += simulated_promises.unwritten(self.database, batch_ids, given)

    def batches(self) -> list[int]:
        """See `faults.schedule_runner.Stage`."""
        return list(self.database.batches)

    def failed_batches(self) -> list[int]:
        """See `faults.recovery.Healable`."""
        return [batch.batch_id for batch in self.database.batches.values() if batch.state == "failed"]

    def requested(self) -> list[tuple[str, int]]:
        """See `faults.recovery.Healable`."""
        rows = self.database.batches.values()
        return [(row.pipeline, row.batch_id) for row in rows if row.kind != "live" and row.state in batches.OPEN]

    def unreadable(self) -> list[NamedRange]:
        """See `faults.recovery.Healable`."""
        db = self.database
        return [
            NamedRange(stream.topic, stream.partition, OffsetRange(piece.start, min(piece.end, start)))
            for stream in db.streams.values()
            for piece in sorted(db.coverage[stream.stream_id].values())
            if piece.hole == "rewound"
            and stream.state == "active"
            and piece.start < (start := self.kafka.start(stream))
        ]

    def has_stopped(self) -> bool:
        """See `faults.recovery.Healable`."""
        return any(stream.state == "stopped" for stream in self.database.streams.values())

    def pipelines(self) -> Sequence[str]:
        """See `faults.schedule_runner.Stage`."""
        return tuple(self.declared)

    def partitions(self) -> int:
        """See `faults.schedule_runner.Stage`."""
        return self.kafka.partitions

    def apply(self, operation: Operation) -> None:
        """See `faults.schedule_runner.Stage`."""
        match operation:
            case PassTime():
                self._pass_time(operation.seconds)
            case CrashServer():
                self.database.crash()
            case Correct():
                self.spark.refuses = False
            case Hold() | Land() | Lose():
                if self.outside is not None:
                    self.outside.apply(operation)
            case AllowGaps():
                self._redeclare(gaps="allowed")
            case Heal():
                self.spark.refuses = False
                self.spark.split_records = LARGE.batch_records
                self._redeclare(gaps="allowed", limits=LARGE)
                self._swap_back()
                self.kafka.heal()
            case SwapCluster() if len(self.declared) > 1 and len(self._followed()) < len(self.declared):
                pass  # each pipeline would follow another cluster, and one address cannot be both
            case CutLog() | Overwrite() | KeepLedger() | RestoreLedger():
                self._lose(operation)
            case _:
                self.kafka.apply(operation)

    def _lose(self, operation: Loss) -> None:
        self.scheduler.finish_transaction()
        if self.outside is not None:
            self._lose_with(self.outside, operation)
        else:
            self.losses.apply(operation)
        self.scheduler.is_restored = self.losses.restores > 0

    def _lose_with(self, output: SimulatedOutside, operation: Loss) -> None:
        """Back up and restore the output at the same moments as the ledger. As docs/operating.md says: end all processes before, and afterwards give
        up what was open at the moment of the backup and is committed since. What was sent arrives before the restore."""
        if isinstance(operation, KeepLedger):
            output.keep()
        if not isinstance(operation, RestoreLedger):
            self.losses.apply(operation)
            return
        for process in self.processes:
            process.kill()
        output.land_all()
        self.losses.apply(operation)
        output.restore()
        self.database.pass_time(61)
        taken_back = {*output.taken_back()}
        for batch in list(self.database.batches.values()):
            if batch.state in batches.OPEN and batch.identity in taken_back:
                self.start(Abandon(batch.batch_id)).go(MANY)

    def _swap_back(self) -> None:
        """Let the cluster answer again that the ledger follows.

        Nothing would show afterwards that another one was read in between, so all processes are killed.
        """
        if self.kafka.is_swapped and self.kafka.cluster.cluster_id not in self._followed().values():
            for process in self.processes:
                process.kill()
            self.kafka.swap_back()

    def _followed(self) -> dict[str, str]:
        """Return the cluster that each pipeline follows, for pipelines that have planned before."""
        return {stream.pipeline: stream.cluster_id for stream in self.database.streams.values()}

    def _redeclare(self, *, gaps: str, limits: Limits | None = None) -> None:
        for name, pipeline in self.declared.items():
            source = pipeline.source.model_copy(update={"gaps": gaps})
            self.declared[name] = pipeline.model_copy(update={"source": source, "limits": limits or pipeline.limits})

    def _pass_time(self, seconds: int) -> None:
        """Let time pass. At its end all processes that live and are not frozen send a heartbeat."""
        self.scheduler.finish_transaction()
        self.database.pass_time(seconds)
        self.processes = [process for process in self.processes if process.ended is None]
        for process in self.processes:
            if process.heartbeat is not None and not process.frozen:
                with MemoryLedger(self.database, actor="heartbeat") as ledger:
                    process.heartbeat.beat(ledger)

    def _on_statement(self, session: MemoryLedger, name: str) -> None:
        if name == "list_run_batches" and session.actor.endswith(" plan"):
            self._planning = session
        if name == "commit":
            running = self.scheduler.running
            if running is not None and running.writes_nothing and self.database._undo:
                self.broken.append(f"{session.actor} has changed something in a dry run")
            self.watcher.look()
            self._check_stops()
            self._check_taken(session)
        elif name == "committed":
            self.watcher.count()
            self.losses.noticed(self.watcher.noticed)
        running = self.scheduler.running
        if running is not None:
            if name == "stop_stream":
                running.stopped_at_version = running.seen_version
            running.point(name, session)
        if name not in COMMITS:
            self.scheduler.last_statement = name

    def _check_stops(self) -> None:
        running = self.scheduler.running
        if running is not None and running.stopped_at_version == self.kafka.version:
            for stream in self.watcher.stopped:
                folds = self.declared[stream.pipeline].state is not None
                if why := unfounded(self.database, self.kafka, stream, folds=folds):
                    self.broken.append(f"{stream} has stopped, but {why}")

    def _check_taken(self, session: MemoryLedger) -> None:
        self.broken += filter(None, (robbed(self.database, batch) for batch in self.watcher.taken))
        self.broken += filter(None, (hurried(self.database, self.kafka, event) for event in self.watcher.given_up))
        for stream in self.watcher.stopped:
            if why := presumed(self.database, stream):
                self.broken.append(f"{stream} has stopped, but {why}")
        if session is self._planning:
            self._planning = None
            self.broken += held_back(self.database, pipeline=session.actor.partition(" ")[0])

    def _on_question(self, _: MemoryBroker, question: str) -> None:
        if self.scheduler.running is not None:
            self.scheduler.running.point(ASK)
            if question == "topic_facts":
                self.scheduler.running.seen_version = self.kafka.version

    def _on_call(self) -> None:
        if self.scheduler.running is not None:
            self.scheduler.running.point(ASK)

    def announce_the_rest(self) -> None:
        """Announce what no run has announced, as upkeep does once a day. The second round finds nothing left, and has
        seen every event."""
        for name in (*self.declared, *self.declared):
            announcer = Announcer(dag_id="upkeep", run_id="daily", task_id=name)
            with MemoryLedger(self.database, actor="upkeep") as ledger:
                self.airflow.keep(flow.announce(ledger, name, announcer, self.airflow))

    def asset_events(self, pipeline: str) -> list[tuple[int, UUID]]:
        """Return the asset events of a pipeline. After a restore, events of batches that the ledger does not know any
        more are left out."""
        own = {batch.batch_id: batch for batch in self.database.batches.values() if batch.pipeline == pipeline}
        others = {batch.batch_id for batch in self.database.batches.values()} - own.keys()
        events = [event for event in self.airflow.events if event[0] not in others]
        if self.losses.restores:
            known = {(batch.batch_id, batch.attempt) for batch in own.values() if batch.state in PUBLISHED}
            events = [event for event in events if event in known]
        return events

    def _heartbeat(self, _: str, attempt: UUID, superseded: Any) -> SimulatedHeartbeat:
        return SimulatedHeartbeat(self.scheduler.current, attempt, superseded)

    def _said(self, text: str, **_: Any) -> None:
        self.tally.passed_over += text.endswith(": skipped")

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Replace what the product calls on the outside with this world, for the duration of the context."""
        replacements = {
            (write_batches, "Broker"): partial(MemoryBroker, self.kafka.cluster),
            (DeltaTables, "outside"): lambda *_, **__: self.outside,
            (DeltaTables, "upkeep"): lambda *_: [],
            (settling, "load_named"): self.declared.get,
            (supervision, "Heartbeat"): self._heartbeat,
            (supervision, "Deadline"): lambda *_: NeverPasses(),
            (write_batches, "session"): self.spark.session,
            (write_batches, "prepared"): self.spark.prepared,
            (write_batches, "_write"): self.spark.write,
            (job_log, "say"): self._said,
            (writing, "time"): SimpleNamespace(sleep=lambda _: self.scheduler.current.sleep()),
        }
        os.environ["TIDELINE_LEDGER_URL"] = "memory"
        logging.getLogger("tideline").setLevel(logging.CRITICAL)  # no log: a hundred schedules run in a second
        with replaced(replacements):
            yield
