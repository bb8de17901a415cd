"""Provide the stage of real processes, on which `faults.schedule_runner` plays schedules."""

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from faults.actions import PIPELINE, Task
from faults.operations import AllowGaps, Correct, CrashServer, Heal, Hold, Land, Lose, Operation, PassTime
from faults.processes.acting import ActingProcess
from faults.processes.ground import Ground
from faults.processes.outcomes import QuickProcess, UnexpectedError, Variety
from faults.processes.process_pipelines import Output
from faults.processes.process_promises import Promise
from faults.processes.process_scene import Scene
from faults.processes.process_spark import Again
from faults.schedules import Beginning
from faults.simulation.simulated_kafka import SimulatedKafka
from faults.simulation.tally import Tally
from tideline.declaration import Limits
from tideline.domain.requests import NamedRange

SPLIT_RECORDS = 6
LARGE = Limits(batch_records=200, run_batches=20, split_records=200)
_AGAIN = (Again.DIES, Again.LOSES, None, None, None, None)


class LiveStage:
    """See `faults.schedule_runner.Stage`.

    Args:
        ground: The environment of the worker.
        beginning: The initial state.
        random: Decides what the operations leave open.
        tally: Receives the counts.
        output: What the pipeline writes to.
    """

    def __init__(
        self, ground: Ground, beginning: Beginning, random: Random, tally: Tally, output: Output = Output.APPENDED
    ) -> None:
        pipeline = ground.declare(
            output,
            delivery=beginning.delivery,
            gaps=beginning.gaps,
            start=beginning.start,
            batch_records=beginning.batch_records,
            run_batches=beginning.run_batches,
            split_records=SPLIT_RECORDS,
        )
        kafka = SimulatedKafka(lambda *_: None, beginning.incarnation, beginning.ends)
        self.scene = Scene(ground, pipeline, kafka)
        self.processes: list[ActingProcess | QuickProcess] = []
        self.broken: list[str] = []
        self._ground = ground
        self._random = random
        self._tally = tally
        self._variety = Variety()
        self._healed = False

    def start(self, task: Task) -> ActingProcess | QuickProcess:
        """See `faults.schedule_runner.Stage`."""
        name = type(task).__name__
        if self._healed and all(process.ended is not None for process in self.processes):
            quick = QuickProcess(name, partial(self.scene.run_tasks, task))
            self.processes.append(quick)
            return quick
        again = {number: why for number in range(4) if (why := self._random.choice(_AGAIN))}
        promise = Promise(self.scene, task)
        process = ActingProcess(
            self.scene.start(task, again=again),
            name,
            proxy=self._ground.proxy,
            query=self.scene.query,
            variety=self._variety,
            lake=self.scene.lake,
            on_end=lambda: self.broken.extend(promise.broken()),
        )
        self.processes.append(process)
        return process

    def pipelines(self) -> Sequence[str]:
        """See `faults.schedule_runner.Stage`: here only one."""
        return (PIPELINE,)

    def apply(self, operation: Operation) -> None:
        """See `faults.schedule_runner.Stage`."""
        match operation:
            case PassTime():
                living = [process.pid for process in self.processes if process.ended is None and not process.frozen]
                self.scene.pass_time(operation.seconds, living=living)
            case CrashServer():
                self._ground.crash()
            case Correct():
                self.scene.transform(corrected=True)
            case Hold() | Land() | Lose():
                if self.scene.lake:
                    self.scene.lake.apply(operation, self._random)
            case AllowGaps():
                self._redeclare(gaps="allowed")
            case Heal():
                self._healed = True
                self.scene.transform(corrected=True)
                self._redeclare(gaps="allowed", limits=LARGE)
                self._swap_back()
                self.scene.kafka.heal()
            case _:
                self.scene.apply(operation)

    def _redeclare(self, *, gaps: str, limits: Limits | None = None) -> None:
        pipeline = self.scene.pipeline
        source = pipeline.source.model_copy(update={"gaps": gaps})
        self.scene.pipeline = pipeline.model_copy(update={"source": source, "limits": limits or pipeline.limits})

    def _swap_back(self) -> None:
        """Let the cluster answer again that the ledger follows.

        Nothing would show that another one was read in between, so all processes are killed.
        """
        kafka = self.scene.kafka
        followed = {
            cluster for (cluster,) in self._rows("SELECT DISTINCT cluster_id FROM tideline.stream WHERE pipeline = %s")
        }
        if kafka.is_swapped and kafka.cluster.cluster_id not in followed:
            self.kill_all()
            kafka.swap_back()

    def batches(self) -> Sequence[int]:
        """See `faults.schedule_runner.Stage`."""
        return [row[0] for row in self._rows("SELECT batch_id FROM tideline.batch WHERE pipeline = %s ORDER BY 1")]

    def failed_batches(self) -> Sequence[int]:
        """See `faults.recovery.Healable`."""
        failed = "SELECT batch_id FROM tideline.batch WHERE pipeline = %s AND state = 'failed' ORDER BY 1"
        return [row[0] for row in self._rows(failed)]

    def requested(self) -> Sequence[tuple[str, int]]:
        """See `faults.recovery.Healable`."""
        wanted = "SELECT batch_id FROM tideline.batch WHERE pipeline = %s AND state IN ('planned', 'writing', 'failed') AND kind <> 'live' ORDER BY 1"
        return [(PIPELINE, batch_id) for (batch_id,) in self._rows(wanted)]

    def unreadable(self) -> Sequence[NamedRange]:
        """See `faults.recovery.Healable`. No schedule of processes has a rewind."""
        return ()

    def has_stopped(self) -> bool:
        """See `faults.recovery.Healable`."""
        return bool(self._rows("SELECT 1 FROM tideline.stream WHERE pipeline = %s AND state = 'stopped'"))

    def partitions(self) -> int:
        """See `faults.schedule_runner.Stage`."""
        return self.scene.kafka.partitions

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.scene.query(sql, self.scene.pipeline.name)

    def kill_all(self) -> None:
        """Kill all living processes, frozen or not."""
        for process in self.processes:
            process.kill()

    def unexpected(self) -> list[str]:
        """Return errors that no verb may raise. Injected errors do not count."""
        return [
            str(process.ended.error)
            for process in self.processes
            if process.ended is not None
            and isinstance(process.ended.error, UnexpectedError)
            and not process.was_refused
        ]

    def count(self) -> None:
        """Add what the processes have done to the tally."""
        for process in self.processes:
            ended = process.ended
            assert ended is not None, process.name
            how = "killed" if ended.killed else type(ended.error).__name__ if ended.error else "ok"
            self._tally.tasks[f"{process.name} {how}"] += 1
            self._tally.commits += process.n_commits
            for strike, step in process.struck:
                self._tally.strikes[strike] += 1
                if strike.startswith("commit"):
                    self._tally.unknown_commits += 1
                    self._tally.resolved += step == "COMMIT after clear_staging"  # the last statement of a publish
        published = (
            "SELECT kind::text, count(*)::int FROM tideline.batch"
            " WHERE pipeline = %s AND state IN ('published', 'advanced', 'superseded') GROUP BY 1"
        )
        refused = "SELECT count(*)::int FROM tideline.event WHERE pipeline = %s AND action = 'refuse'"
        passed = "SELECT coalesce(sum(next_offset - start_offset), 0)::int FROM tideline.stream WHERE pipeline = %s"
        settled = (
            "SELECT count(*)::int FROM tideline.batch JOIN tideline.attempt w ON w.attempt_id = written_by"
            " WHERE pipeline = %s AND w.attempt <> batch.attempt"
        )
        if self.scene.lake:
            self._tally.outside.update(self.scene.lake.counts())
            self._tally.settled += self._rows(settled)[0][0]
        self._tally.published.update(dict(self._rows(published)))
        self._tally.refused += self._rows(refused)[0][0]
        self._tally.records += self._rows(passed)[0][0]
