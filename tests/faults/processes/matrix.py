"""Run the failpoint matrix: strike each verb at a step, run it again, heal and check."""

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg2
import psycopg2.errors

from faults.actions import Write
from faults.processes.child import Timing
from faults.processes.gate import Step
from faults.processes.ground import Ground
from faults.processes.process import LiveProcess, finished
from faults.processes.process_faults import Fault, steps_of, strike
from faults.processes.process_scene import Scene
from faults.processes.scenarios import Scenario, Verb
from faults.processes.verbs import VERBS
from faults.simulation.simulated_kafka import SimulatedKafka

_ERRORS = (RuntimeError, psycopg2.OperationalError, MemoryError, KeyboardInterrupt, psycopg2.errors.DeadlockDetected)
"""The injected errors, one per round in turn."""
IDLE_MS = (300, 3_000, 30_000)
"""Milliseconds after which the server ends the transaction of a frozen process.

The longer ones are for a machine so busy that the server ended another transaction first.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One fault at one step of a verb."""

    verb: str
    step: str
    fault: Fault

    @property
    def name(self) -> str:
        """Return the name of the case in the form that pytest's -k takes."""
        return ".".join(
            "-".join("".join(c if c.isalnum() or c in "_-" else " " for c in part).split())
            for part in (self.verb, self.step, self.fault)
        )


class WrongEndError(AssertionError):
    """The result after a fault is wrong."""


class EndedEarlyError(WrongEndError):
    """The process ended before the step at which it was to be struck."""


def recorded(ground: Ground, verb_name: str) -> list[tuple[str, Step]]:
    """Record the steps of a verb without faults."""
    with prepared(ground, VERBS[verb_name]) as (scene, scenario):
        process = scene.start(scenario.task)
        found = list(steps_of(process))
        if not process.outcome or process.outcome.error:
            raise WrongEndError(f"{verb_name} without faults: {process.outcome}")
        _settle(scene, scenario)
        return found


@contextmanager
def prepared(ground: Ground, verb: Verb, scene: Scene | None = None) -> Iterator[tuple[Scene, Scenario]]:
    """Provide a scene in which the verb has something to do: the given one, or a new one."""
    if verb.empty:
        with ground.database() as name:
            scene = Scene(ground, ground.declare(), SimulatedKafka(_ignore, 1, (3,)), database=name)
            yield scene, verb.prepare(scene)
        return
    if scene is None:
        pipeline = ground.declare(verb.output)
        scene = Scene(ground, pipeline, SimulatedKafka(_ignore, 1, (0,) * verb.first or (11,)))
        if not verb.first:
            scene.load()
    yield scene, verb.prepare(scene)


def _ignore(*_: object) -> None:
    """Ignore the questions that the broker is asked."""


def outcomes(ground: Ground, cases: Sequence[Case], rounds: int = 1) -> list[str]:
    """Return the problem of each case of one verb; an empty text if all is right."""
    found = [""] * len(cases)
    for number in range(rounds):
        scene = None
        for place, case in enumerate(cases):
            try:
                scene = _tried(ground, scene, case, number)
            except Exception:  # noqa: BLE001 - the test reports it
                found[place] = found[place] or f"in round {number + 1}: {traceback.format_exc()}"
                scene = None
    return found


def _tried(ground: Ground, last: Scene | None, case: Case, number: int) -> Scene | None:
    """Run a case. If the server ends a transaction before the process is frozen in it, try again with a longer
    time-out."""
    for idle_ms in IDLE_MS[:-1] if case.fault is Fault.FROZEN else ():
        with suppress(EndedEarlyError):
            return _struck_once(ground, last, case, number, idle_ms)
        last = None
    return _struck_once(ground, last, case, number, IDLE_MS[-1])


def _struck_once(ground: Ground, last: Scene | None, case: Case, number: int, idle_ms: int) -> Scene | None:
    """Strike at the step, do what operators and Airflow do then, and check. Return the scene for the next case, if it
    can be reused."""
    with prepared(ground, VERBS[case.verb], last) as (scene, scenario):
        frozen = case.fault is Fault.FROZEN
        process = scene.start(scenario.task, timing=Timing(idle_ms=idle_ms) if frozen else Timing())
        try:
            step = _reach(process, case.step)
            strike(ground.proxy, process, step, case.fault, _ERRORS[number % len(_ERRORS)])
            if not frozen:
                finished(process)
            if number % 2 and isinstance(scenario.task, Write):
                scene.pass_time(61)
                scene.load()  # another run takes over
            _settle(scene, scenario)
            if frozen:
                _thaw(scene, process, step, scenario)
        finally:
            process.kill()
        return None if VERBS[case.verb].alone else scene


def _reach(process: LiveProcess, wanted: str) -> Step:
    for name, step in steps_of(process):
        if name == wanted:
            return step
    raise EndedEarlyError(f"it ended before that step: {process.outcome}")


def _thaw(scene: Scene, process: LiveProcess, step: Step, scenario: Scenario) -> None:
    """Check a frozen process that continues after all its work was done without it: it may report that it is too
    late, and change nothing."""
    _outwait(scene, step)
    before, shown = scene.everything(), scene.shown()
    process.thaw()
    ended = finished(process)
    if scenario.asks_again and ended.batch_ids:
        scene.load()
    elif changed := _changed(before, scene.everything()):
        raise WrongEndError(f"it has changed something after it continued ({ended}): {changed}")
    if scene.shown() != shown:
        raise WrongEndError(f"readers see something else after it continued ({ended})")
    _check(scene)


def _changed(before: Mapping[str, list[Any]], after: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return what was added and what was removed."""
    return {
        name: [thing for thing in (*before[name], *after[name]) if (thing in before[name]) != (thing in after[name])]
        for name in before
        if before[name] != after[name]
    }


def _settle(scene: Scene, scenario: Scenario) -> None:
    """Run the struck task again; then the next run loads the rest."""
    again = scene.run_tasks(*scenario.again)
    if again.error not in {"", "FatalError"}:
        raise WrongEndError(f"run again it fails: {again.error}: {again.text}")
    if not scenario.done():
        raise WrongEndError(f"run again it has not reached its goal: {again}")
    scene.load()
    _check(scene)


def _check(scene: Scene) -> None:
    if found := scene.violations(quiet=True):
        raise WrongEndError("\n".join(map(str, found)))


def _outwait(scene: Scene, step: Step) -> None:
    """Wait until the server has ended the transaction of a client that was silent for long."""
    deadline = time.monotonic() + 120
    while step.inside and scene.query("SELECT 1 FROM pg_stat_activity WHERE pid = %s", step.backend):
        if time.monotonic() > deadline:
            raise WrongEndError("the server still waits for the frozen process")
        time.sleep(0.02)
