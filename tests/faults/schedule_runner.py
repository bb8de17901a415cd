"""Play a schedule, as Airflow and operators would: runs of three tasks with tries, commands, orphans.

The level defines what a process is.
"""

from dataclasses import dataclass, field
from typing import Protocol

from faults import addressing
from faults.actions import PIPELINE, TRIES, Advance, Plan, Task, Write, is_lasting
from faults.addressing import Inventory
from faults.operations import (
    Clear,
    Decide,
    Duplicate,
    Fault,
    Finish,
    Go,
    GoBack,
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
"""A number of steps that no process reaches: it continues until it ends or has to wait."""


@dataclass(slots=True)
class Ended:
    """How a process ended."""

    batch_ids: list[int] | None = None
    """The batches of a finished plan."""
    error: BaseException | None = None
    killed: bool = False


class Process(Protocol):
    """One process, simulated or real."""

    ended: Ended | None
    waiting: bool
    """Whether it waits for another process, so that it cannot continue now."""

    def go(self, steps: int) -> int:
        """Continue until it has ended, waits, or has taken `steps` steps. Return the remaining steps."""

    def strike(self, strike: Strike, after: int) -> int | None:
        """Continue until the fault strikes, after `after` more points; then return None. Else return the points that
        were left when it ended or had to wait."""

    def kill(self) -> None:
        """End the process at once."""


class Stage(Inventory, Protocol):
    """The environment in which a schedule is played."""

    def start(self, task: Task) -> Process:
        """Start a process, which waits before its first step."""

    def apply(self, operation: Operation) -> None:
        """Apply an operation that no process does: to Kafka, to Postgres, to the clock, to a file."""


@dataclass(slots=True)
class Actor:
    """An actor of a schedule: a DAG run, a command, or an orphaned process."""

    process: Process | None
    """None after its end."""


@dataclass(slots=True)
class DagRun(Actor):
    """A DAG run, at one of its three tasks. Each task has a few tries; an error that another try cannot change fails
    it at once."""

    run: Run
    request: Request
    task: int = 0
    batch_ids: tuple[int, ...] | None = None
    """The batches that its plan returned, as Airflow keeps them."""
    tried: list[int] = field(default_factory=lambda: [0, 0, 0])
    allowed: list[int] = field(default_factory=lambda: [TRIES] * 3)
    failed: bool = False


class Play:
    """The runs, commands and orphans that a schedule has started."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.runs: list[DagRun] = []
        """All runs, also those that have ended."""
        self.actors: list[Actor] = []
        """The actors that can continue, in order of their start."""
        self.frozen: list[Actor] = []

    def do(self, operation: Operation) -> None:
        """Carry out one operation. It has no effect if its subject does not exist."""
        match operation:
            case Go() | Until() | Finish() | Fault():
                if actors := self.actors:
                    self._advance_actor(actors[operation.process % len(actors)], operation)
            case Thaw():
                if self.frozen:
                    self.actors.append(self.frozen.pop(operation.frozen % len(self.frozen)))
            case Start():
                if request := addressing.request(operation.request, self.stage):
                    self.start(request, addressing.pipeline(operation.pipeline, self.stage))
            case Clear() | Duplicate() | MarkSuccess() | Reprocess():
                self._manage(operation)
            case Decide() | GoBack() | SkipOffsets() | Look():
                if command := addressing.command(operation, self.stage):
                    self.command(command)
            case _:
                self.stage.apply(operation)

    def _advance_actor(self, actor: Actor, operation: Go | Until | Finish | Fault) -> None:
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
        """Start a run."""
        run = DagRun(None, Run(dag_id=pipeline, run_id=f"run {len(self.runs) + 1}"), request)
        self.runs.append(run)
        self.actors.append(run)
        self._try(run)
        return run

    def command(self, task: Task) -> Actor:
        """Start a command."""
        self.actors.append(Actor(self.stage.start(task)))
        return self.actors[-1]

    def go(self, actor: Actor, steps: int) -> int:
        """Let an actor take `steps` steps, across the tasks of a run. Return the steps that are left when it has
        ended or has to wait."""
        while actor.process is not None and steps > 0:
            steps = actor.process.go(steps)
            ended = actor.process.ended
            if ended is None:
                break
            self._settle(actor, ended)
        return steps

    def _strike(self, actor: Actor, fault: Fault) -> None:
        left: int | None = fault.after
        while actor.process is not None and left is not None:
            process = actor.process
            left = process.strike(fault.strike, left)
            if process.ended is not None:
                self._settle(actor, process.ended)
            if actor.process is process:
                break
        if left is None and fault.strike in {Strike.FREEZE, Strike.LOSE}:
            self._presume_dead(actor, process, self.frozen if fault.strike is Strike.FREEZE else self.actors)

    def _presume_dead(self, actor: Actor, process: Process, orphans: list[Actor]) -> None:
        """Start the next try of a struck task. The struck process becomes an orphan that runs on its own, or stays
        frozen."""
        if isinstance(actor, DagRun):
            actor.process = None
            self._next_try(actor)
            orphans.append(Actor(process))
        elif orphans is self.frozen:
            self.actors.remove(actor)
            self.frozen.append(actor)

    def _settle(self, actor: Actor, ended: Ended) -> None:
        """Do what Airflow does when a process has ended."""
        actor.process = None
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
        """Carry out a manual action on a run in Airflow."""
        needs_process = isinstance(operation, Duplicate | MarkSuccess)
        runs = [run for run in self.runs if run.process is not None] if needs_process else self.runs
        if not runs:
            return
        run = runs[operation.run % len(runs)]
        match operation:
            case Duplicate():
                self.command(_task(run))
            case MarkSuccess():
                assert run.process is not None, run
                run.process.kill()
                run.process = None
                self._succeed(run)
            case Clear():
                self._clear(run, operation.task % (min(run.task, 2) + 1))
            case Reprocess():
                run.request = addressing.request(operation.request, self.stage) or run.request
                self._clear(run, 0)

    def _clear(self, run: DagRun, task: int) -> None:
        """Clear a task and those downstream of it. The numbers of tries continue to count up."""
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
    """Return the current task of a run."""
    match run.task:
        case 0:
            return Plan(run=run.run, request=run.request)
        case 1:
            return Write(run=run.run, try_number=run.tried[1], batch_ids=run.batch_ids)
        case _:
            return Advance(run=run.run, batch_ids=run.batch_ids)
