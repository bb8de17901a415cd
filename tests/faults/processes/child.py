"""Run one task or command in a child process, with the real verbs and the real Spark job. Only Kafka and the JVM are
replaced."""

import os
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing.connection import Connection
from types import ModuleType, SimpleNamespace
from typing import Any
from uuid import UUID

from faults.actions import Task, actor, is_lasting, perform
from faults.processes import gated_drivers, gated_lakes, kept_sessions
from faults.processes.gate import Ended, Gate, Kind, Step
from faults.processes.process_spark import Again, Spark
from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import FoundOffset, Place, RecordFacts, TopicFacts
from tideline.errors import FatalError, TidelineError
from tideline.flow import settling, writing
from tideline.kafka.broker import Broker
from tideline.ledger import abandoning, cleanup, session_settings
from tideline.ledger.attempts import Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline.ledger.publications import Announcer
from tideline.spark_jobs import heartbeat, stateful, write_batches
from tideline.spark_jobs.readers import kafka


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Time-outs and intervals. In production they are those of the modules."""

    lock_ms: int = 10_000
    idle_ms: int = 60_000
    stale_seconds: float = 60.0
    poll_seconds: float = 0.05
    silent_seconds: float = 600.0
    beat_seconds: float = 0.2


@dataclass(frozen=True, slots=True)
class Migrate:
    """`tideline migrate`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """The work of one process."""

    tasks: tuple[Task | Migrate, ...]
    """Run in order. The rest is left out when one fails or has nothing to do."""
    pipeline: Pipeline
    url: str
    """The URL of the ledger."""
    watched: bool = True
    """Whether each step waits for the conductor, the process that plays the schedule."""
    timing: Timing = Timing()
    again: Mapping[int, Again] = field(default_factory=dict)


class RemoteBroker(Broker):
    """The broker methods that a plan and a write use; the conductor answers them from its log."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def cluster_id(self) -> str:
        answer: str = self._ask("cluster_id")
        return answer

    def topic_facts(self) -> list[TopicFacts]:
        answer: list[TopicFacts] = self._ask("topic_facts")
        return answer

    def missing(self, found: Iterable[TopicFacts], known: Iterable[str] = ()) -> dict[str, FatalError]:
        answer: dict[str, FatalError] = self._ask("missing", list(found), list(known))
        return answer

    def offsets_at(self, times: Mapping[Place, datetime], *, committed: bool = True) -> dict[Place, FoundOffset]:
        answer: dict[Place, FoundOffset] = self._ask("offsets_at", dict(times), committed=committed)
        return answer

    def records_from(
        self, starts: Mapping[Place, int], count: int, *, committed: bool = True
    ) -> dict[Place, list[RecordFacts]]:
        answer: dict[Place, list[RecordFacts]] = self._ask("records_from", dict(starts), count, committed=committed)
        return answer

    def commit_heads(self, group: str, heads: Mapping[tuple[str, int], int]) -> None:
        self._ask("commit_heads", group, dict(heads))

    def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        return self._gate.ask(f"broker: {method}", method, *arguments, **named)


@dataclass(frozen=True, slots=True)
class ChildSurroundings:
    """The surroundings of `perform` in a child process."""

    ledger: Ledger
    broker: RemoteBroker
    pipeline: Pipeline

    def write(self, batch_ids: Sequence[int], writer: Writer) -> None:
        """Write the batches as the Spark job does."""
        write_batches.write_all(self.ledger, self.pipeline, batch_ids, writer)

    def announce(self, announcer: Announcer) -> None:
        """Announce as the task does, with an Airflow that has no events and no other running task."""
        if self.ledger.connection.closed:
            self.ledger.reconnect()
        flow.announce(self.ledger, self.pipeline.name, announcer, NoEvents())


class NoEvents:
    """See `tideline.flow.advancing.AssetEvents`."""

    def may_succeed(self, announcer: Announcer) -> bool:
        return False

    def announced(self, since: datetime) -> set[UUID]:
        return set()


def run(errand: Errand, pipe: Connection) -> None:
    """Carry out the errand, and report how it ended."""
    gate = Gate(pipe, watched=errand.watched)
    if errand.watched:
        target = errand.pipeline.folder / "target.sql"
        gated_drivers.install(gate, target.read_text(encoding="utf-8") if target.exists() else "")
        gated_lakes.install(gate)
    gate.end(_done(errand, gate))


def serve(pipe: Connection) -> None:
    """Carry out one errand after the other and keep the database sessions open. For processes that no fault strikes."""
    kept_sessions.install()
    gate = Gate(pipe, watched=False)
    while True:
        try:
            errand = pipe.recv()
        except EOFError:
            return
        gate.end(_done(errand, gate))


def _done(errand: Errand, gate: Gate) -> Ended:
    broker = RemoteBroker(gate)
    spark = Spark(gate, errand.again)
    _set(errand.timing)
    os.environ["TIDELINE_LEDGER_URL"] = errand.url
    replacements: dict[tuple[ModuleType, str], object] = {
        (write_batches, "session"): lambda _: spark,
        (write_batches, "Broker"): lambda _: broker,
        (kafka, "load"): Spark.kafka,
        (settling, "load_named"): lambda _: errand.pipeline,
        (stateful, "functions"): SimpleNamespace(col=str),
        (stateful, "WORTH_A_TASK"): 4,
    }
    for (module, name), replacement in replacements.items():
        setattr(module, name, replacement)
    batch_ids = None
    try:
        for task in errand.tasks:
            batch_ids = _do(task, errand, broker)
            if batch_ids == []:
                break
        gate.reach(Step(name="end", kind=Kind.END))
    except BaseException as error:  # noqa: BLE001 - any error ends this errand and nothing else
        ours = isinstance(error, TidelineError)
        text = str(error) if ours else traceback.format_exc()
        return Ended(error=type(error).__name__, text=text, ours=ours, lasting=is_lasting(error))
    return Ended(batch_ids=batch_ids)


def _do(task: Task | Migrate, errand: Errand, broker: RemoteBroker) -> list[int] | None:
    if isinstance(task, Migrate):
        with Ledger(errand.url, actor="migrate") as ledger:
            migrate(ledger)
        return None
    with Ledger(errand.url, actor=actor(task)) as ledger:
        return perform(task, ChildSurroundings(ledger, broker, errand.pipeline))


def _set(timing: Timing) -> None:
    session_settings.SESSION |= {
        "lock_timeout": timing.lock_ms,
        "idle_in_transaction_session_timeout": timing.idle_ms,
    }
    session_settings.ASKING_IDLE_TIMEOUT_MS = timing.idle_ms
    defaults = {"stale_after_seconds": timing.stale_seconds, "poll_seconds": timing.poll_seconds}
    writing.claim.__kwdefaults__ = (writing.claim.__kwdefaults__ or {}) | defaults
    abandoning.STALE_AFTER_SECONDS = timing.stale_seconds
    cleanup.SILENT_SECONDS = timing.silent_seconds
    heartbeat.BEAT_SECONDS = timing.beat_seconds
    heartbeat._WATCH_SECONDS = timing.beat_seconds / 2
