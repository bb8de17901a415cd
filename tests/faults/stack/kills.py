"""Kill one process of the stack with SIGKILL, at the moment that a schedule says."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import psutil

import held_tasks
from faults.jobs.order_outputs import Sink
from faults.stack import operators
from faults.stack.stack_scene import Scene
from faults.stack.stack_schedules import PARTS, Hold, Kill, Victim
from held_tasks import Writing
from tideline.spark_jobs.session import WORKER_DAEMON

PLACED_WITHIN_S = 150
"""Seconds to wait for a task whose process is to be killed."""
_LOCKED_S = 20
"""Seconds for which a lock is held for a process that does not reach it: sessions of the ledger wait 30 seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A process that was killed."""

    victim: Victim
    text: str
    pid: int
    at: float
    """Seconds since the epoch."""


def kill_when_due(scene: Scene, kill: Kill) -> Death | None:
    """Wait for the moment and kill; try again if the process had ended before.

    Return None if a task's process did not appear in time, for example because no task of that pipeline ran any more.
    Such a fault is left out and counted: what the product does meanwhile is no less right.
    """
    scene.pause_until(kill.after)
    find = {Victim.PLAN: _plan, Victim.ADVANCE: _advance}.get(kill.victim, _part if kill.victim in PARTS else _write)
    seconds = None if kill.victim in PARTS else PLACED_WITHIN_S
    return scene.attempt(f"kill the {kill.victim}", lambda: find(scene, kill), seconds=seconds)


def _part(scene: Scene, kill: Kill) -> Death | None:
    return _killed(kill, psutil.Process(scene.system.stack.parts()[kill.victim].pid))


def _plan(scene: Scene, kill: Kill) -> Death | None:
    name = scene.pipelines[kill.pipeline]
    if not scene.system.rows("SELECT 1 FROM tideline.pipeline WHERE pipeline = %s", name):
        return None  # no plan has run yet, so there is no row to lock
    operators.trigger(scene, name)
    with held_tasks.before_plan(scene.system, name, _task(scene, "plan"), seconds=_LOCKED_S) as runner:
        return _killed_and_held(scene, kill, runner)


def _advance(scene: Scene, kill: Kill) -> Death | None:
    name = scene.pipelines[kill.pipeline]
    if "published" not in scene.system.batches(name).values():
        return None
    with held_tasks.before_heads_move(scene.system, name, _task(scene, "advance"), seconds=_LOCKED_S) as runner:
        return _killed_and_held(scene, kill, runner)


def _task(scene: Scene, task_id: str) -> Callable[[psutil.Process], bool]:
    """Return a predicate for the processes that run such a task."""
    return lambda process: _runs(scene, process, task_id)


def _runs(scene: Scene, process: psutil.Process, task_id: str) -> bool:
    """Return whether a process belongs to Airflow and runs such a task."""
    title = " ".join(process.cmdline())
    found = scene.system.airflow.call("GET", "dags/~/dagRuns/~/taskInstances?state=running&limit=100")["task_instances"]
    return any(task["id"] in title and task["task_id"] == task_id for task in found)


def _write(scene: Scene, kill: Kill) -> Death | None:
    attempts = held_tasks.at_work(scene.system, scene.pipelines[kill.pipeline])
    if not attempts:
        return None
    attempt = attempts[0]
    if kill.hold is Hold.NOWHERE:
        scene.pause(kill.held / 3)
        return _killed(kill, _VICTIMS[kill.victim](attempt, attempt.driver))
    with _hold(scene, kill)(scene.system, attempt, seconds=_LOCKED_S) as waiter:
        return _killed_and_held(scene, kill, _VICTIMS[kill.victim](attempt, waiter))


def _hold(scene: Scene, kill: Kill) -> Callable[..., AbstractContextManager[psutil.Process]]:
    """Return what holds a write at the kill's place. Rows of a Delta table are staged in files, and no lock holds these."""
    if kill.hold is Hold.PUBLISH:
        return lambda system, attempt, seconds: held_tasks.before_publish(system, attempt.batch_id, seconds=seconds)
    output = scene.outputs[scene.pipelines[kill.pipeline]]
    return held_tasks.amid_counting if output.sink is Sink.LAKE else held_tasks.amid_staging


_VICTIMS: dict[Victim, Callable[[Writing, psutil.Process], psutil.Process]] = {
    Victim.SUPERVISOR: lambda attempt, _: attempt.supervisor,
    Victim.RUNNER: lambda attempt, _: attempt.runner,
    Victim.JVM: lambda attempt, _: attempt.jvm,
    Victim.DRIVER: lambda attempt, _: attempt.driver,
    Victim.WORKER: lambda _, waiter: waiter,
}


def _killed_and_held(scene: Scene, kill: Kill, process: psutil.Process) -> Death | None:
    death = _killed(kill, process)
    if death:
        scene.pause(kill.held)
    return death


def _killed(kill: Kill, process: psutil.Process) -> Death | None:
    if process.status() == psutil.STATUS_ZOMBIE:
        return None
    if kill.victim is Victim.WORKER and WORKER_DAEMON not in " ".join(process.cmdline()):
        return None  # the driver, which waits to drop the table
    process.kill()
    return Death(victim=kill.victim, text=str(kill), pid=process.pid, at=time.time())
