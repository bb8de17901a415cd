"""Plays a schedule, as Airflow and people would: runs of three tasks with tries, commands, orphans. What a process is, the level says."""

from dataclasses import dataclass, field
from typing import Protocol

from faults import addressing
from faults.actions import PIPELINE, TRIES, Advance, Plan, Task, Write, is_lasting
from faults.addressing import There
from faults.operations import (
    Clear,
    Decide,
    Duplicate,
    Fault,
    Finish,
    Go,
    Look,
    MarkSuccess,
    Operation,
    Reprocess,
    SkipOffsets,
    Start,
    Strike,
    Thaw,
    Until,
)
from tideline.domain.requests import Request
from tideline.ledger.reservations import Run

MANY = 1_000_000
"""Steps: as many as there are."""


@dataclass(slots=True)
class Ended:
    """How a process ended."""

    batch_ids: list[int] | None = None
    """Of a plan that is through."""
    error: BaseException | None = None
    killed: bool = False


class Process(Protocol):
    """One process, simulated or real."""

    ended: Ended | None
    waiting: bool
    """It waits for somebody else, so that to go on now would lead to nothing."""

    def go(self, steps: int) -> int:
        """Go on until it has ended, waits, or has done so many steps; the steps that are left."""

    def strike(self, strike: Strike, after: int) -> int | None:
        """Go on until something strikes it; None then. Else the points that were left when it ended or had to wait."""

    def kill(self) -> None:
        """Nothing of it runs any more."""


class Stage(There, Protocol):
    """Where a schedule is played."""

    def start(self, task: Task) -> Process:
        """A process that has not done anything yet."""

    def happen(self, operation: Operation) -> None:
        """Something that no process does: to Kafka, to Postgres, to the clock, to a file."""


@dataclass(slots=True)
class Actor:
    """Something that goes on: a DAG run, a command, or what is left of a task that was taken for dead."""

    process: Process


@dataclass(slots=True)
class DagRun(Actor):
    """A run, at one of its three tasks. Each is tried a few times; what another try cannot change fails at once."""

    process: Process | None
    run: Run
    request: Request
    task: int = 0
    batch_ids: tuple[int, ...] | None = None
    """What its plan has returned, as Airflow keeps it."""
    tried: list[int] = field(default_factory=lambda: [0, 0, 0])
    allowed: list[int] = field(default_factory=lambda: [TRIES] * 3)
    failed: bool = False


class Play:
    """What has been started and has not ended."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.runs: list[DagRun] = []
        """All that there ever were."""
        self.actors: list[Actor] = []
        """Those that can go on, in the order in which they began."""
        self.frozen: list[Actor] = []

    def do(self, operation: Operation) -> None:
        """One operation; it does nothing where what it is about is not there."""
        match operation:
            case Go() | Until() | Finish() | Fault():
                if actors := self.actors:
                    self._set_going(actors[operation.process % len(actors)], operation)
            case Thaw():
                if self.frozen:
                    self.actors.append(self.frozen.pop(operation.frozen % len(self.frozen)))
            case Start():
                if request := addressing.request(operation.wish, self.stage):
                    self.start(request, addressing.pipeline(operation.pipeline, self.stage))
            case Clear() | Duplicate() | MarkSuccess() | Reprocess():
                self._manage(operation)
            case Decide() | SkipOffsets() | Look():
                if command := addressing.command(operation, self.stage):
                    self.command(command)
            case _:
                self.stage.happen(operation)

    def _set_going(self, actor: Actor, operation: Go | Until | Finish | Fault) -> None:
        match operation:
            case Go():
                self.go(actor, operation.steps)
            case Until():
                while isinstance(actor, DagRun) and actor.task < operation.task and not self.go(actor, 1):
                    if actor.process is None or actor.process.waiting:
                        break
            case Finish():
                self.go(actor, MANY)
            case Fault():
                self._strike(actor, operation)

    def start(self, request: Request, pipeline: str = PIPELINE) -> DagRun:
        """A new run."""
        run = DagRun(None, Run(dag_id=pipeline, run_id=f"run {len(self.runs) + 1}"), request)
        self.runs.append(run)
        self.actors.append(run)
        self._try(run)
        return run

    def command(self, task: Task) -> Actor:
        """A new command."""
        self.actors.append(Actor(self.stage.start(task)))
        return self.actors[-1]

    def go(self, actor: Actor, steps: int) -> int:
        """Let it do so many steps, also of the tasks that follow; the steps that are left when it is through or has to wait."""
        while actor.process is not None and steps > 0:
            steps = actor.process.go(steps)
            if actor.process.ended is None:
                break
            self._settle(actor)
        return steps

    def _strike(self, actor: Actor, fault: Fault) -> None:
        left: int | None = fault.after
        while actor.process is not None:
            process = actor.process
            left = process.strike(fault.strike, left)
            if process.ended is not None:
                self._settle(actor)
            if left is None or actor.process is process:
                break
        if left is None and fault.strike in {Strike.FREEZE, Strike.LOSE}:
            self._take_for_dead(actor, process, self.frozen if fault.strike is Strike.FREEZE else self.actors)

    def _take_for_dead(self, actor: Actor, process: Process, orphans: list[Actor]) -> None:
        """What was struck goes on by itself from now on, or not at all, and its task is tried again."""
        if isinstance(actor, DagRun):
            actor.process = None
            self._next_try(actor)
            orphans.append(Actor(process))
        elif orphans is self.frozen:
            self.actors.remove(actor)
            self.frozen.append(actor)

    def _settle(self, actor: Actor) -> None:
        """Its process has ended: what Airflow does then."""
        ended, actor.process = actor.process.ended, None
        if not isinstance(actor, DagRun):
            self.actors.remove(actor)
        elif ended.error is None and not ended.killed:
            if actor.task == 0:
                actor.batch_ids = tuple(ended.batch_ids or ())
            self._succeed(actor, skipped=ended.batch_ids == [])
        elif is_lasting(ended.error):
            self._end(actor, failed=True)
        else:
            self._next_try(actor)

    def _succeed(self, run: DagRun, *, skipped: bool = False) -> None:
        run.task += 1
        if skipped or run.task == len(run.tried):
            self._end(run)
        else:
            self._try(run)

    def _next_try(self, run: DagRun) -> None:
        if run.tried[run.task] < run.allowed[run.task]:
            self._try(run)
        else:
            self._end(run, failed=True)

    def _try(self, run: DagRun) -> None:
        run.tried[run.task] += 1
        run.process = self.stage.start(_task(run))

    def _end(self, run: DagRun, *, failed: bool = False) -> None:
        run.failed = failed
        self.actors.remove(run)

    def _manage(self, operation: Clear | Duplicate | MarkSuccess | Reprocess) -> None:
        """What people do to runs in Airflow."""
        going = isinstance(operation, Duplicate | MarkSuccess)
        runs = [run for run in self.runs if run.process is not None] if going else self.runs
        if not runs:
            return
        run = runs[operation.run % len(runs)]
        match operation:
            case Duplicate():
                self.command(_task(run))
            case MarkSuccess():
                run.process.kill()
                run.process = None
                self._succeed(run)
            case Clear():
                self._clear(run, operation.task % (min(run.task, 2) + 1))
            case Reprocess():
                run.request = addressing.request(operation.wish, self.stage) or run.request
                self._clear(run, 0)

    def _clear(self, run: DagRun, task: int) -> None:
        """From this task on everything is tried anew; tries are counted on."""
        if run.process is None:
            self.actors.append(run)
        else:
            run.process.kill()
        run.task, run.failed = task, False
        if task == 0:
            run.batch_ids = None
        run.allowed[task:] = [tried + TRIES for tried in run.tried[task:]]
        self._try(run)


def _task(run: DagRun) -> Task:
    """What a run does now."""
    match run.task:
        case 0:
            return Plan(run=run.run, request=run.request)
        case 1:
            return Write(run=run.run, try_number=run.tried[1], batch_ids=run.batch_ids)
        case _:
            return Advance(run=run.run, batch_ids=run.batch_ids)
