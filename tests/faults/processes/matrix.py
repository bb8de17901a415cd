"""How each verb is gone through: struck at a step, done again, healed and checked."""

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg2
import psycopg2.errors

from faults.moves import Write
from faults.processes.child import Timing
from faults.processes.gate import Step
from faults.processes.ground import Ground
from faults.processes.process import LiveProcess, finished
from faults.processes.scene import Scene
from faults.processes.striking import Fault, steps_of, strike
from faults.processes.verbs import VERBS, Deed, Verb
from faults.simulation.kafka import SimulatedKafka

_ERRORS = (RuntimeError, psycopg2.OperationalError, MemoryError, KeyboardInterrupt, psycopg2.errors.DeadlockDetected)
"""In turn, from round to round."""
IDLE_MS = (300, 3_000, 30_000)
"""After which the server ends the transaction of somebody who is frozen.

The longer ones are for a machine that is so busy that it ended another one first."""


@dataclass(frozen=True, slots=True)
class Case:
    """One fault at one step of a verb."""

    verb: str
    step: str
    fault: Fault

    @property
    def name(self) -> str:
        """As pytest's -k takes it."""
        return ".".join(
            "-".join("".join(c if c.isalnum() or c in "_-" else " " for c in part).split())
            for part in (self.verb, self.step, self.fault)
        )


class WrongEndError(AssertionError):
    """Not all is as it must be after a fault."""


class EndedEarlyError(WrongEndError):
    """It ended before the step at which it was to be struck."""


def recorded(ground: Ground, verb_name: str) -> list[tuple[str, Step]]:
    """The steps of a verb that nothing happens to."""
    with prepared(ground, VERBS[verb_name]) as (scene, deed):
        process = scene.start(deed.task)
        found = list(steps_of(process))
        if not process.outcome or process.outcome.error:
            raise WrongEndError(f"{verb_name} without faults: {process.outcome}")
        _settle(scene, deed)
        return found


@contextmanager
def prepared(ground: Ground, verb: Verb, scene: Scene | None = None) -> Iterator[tuple[Scene, Deed]]:
    """A scene in which the verb has something to do: the one that is given, or a new one."""
    if verb.migrated is not None:
        with ground.database(migrated=verb.migrated) as name:
            scene = Scene(ground, ground.declare(), SimulatedKafka(_unheard, 1, (3,)), database=name)
            yield scene, verb.prepare(scene)
        return
    if scene is None:
        scene = Scene(ground, ground.declare(), SimulatedKafka(_unheard, 1, (0,) * verb.first or (11,)))
        if not verb.first:
            scene.load()
    yield scene, verb.prepare(scene)


def _unheard(*_: object) -> None:
    """Nobody wants to know what the broker is asked."""


def outcomes(ground: Ground, cases: Sequence[Case], rounds: int = 1) -> list[str]:
    """What was found wrong in each case of one verb; nothing where all is as it must be."""
    found = [""] * len(cases)
    for number in range(rounds):
        scene = None
        for place, case in enumerate(cases):
            try:
                scene = _tried(ground, scene, case, number)
            except Exception:  # noqa: BLE001 - the test says it
                found[place] = found[place] or f"in round {number + 1}: {traceback.format_exc()}"
                scene = None
    return found


def _tried(ground: Ground, last: Scene | None, case: Case, number: int) -> Scene | None:
    """Once or, where the server ends a transaction before the process is frozen in it, again with more patience."""
    for idle_ms in IDLE_MS[:-1] if case.fault is Fault.FROZEN else ():
        with suppress(EndedEarlyError):
            return _go_through(ground, last, case, number, idle_ms)
        last = None
    return _go_through(ground, last, case, number, IDLE_MS[-1])


def _go_through(ground: Ground, last: Scene | None, case: Case, number: int, idle_ms: int) -> Scene | None:
    """Strike at the step, do what people and Airflow do, and check; the scene for the next one."""
    with prepared(ground, VERBS[case.verb], last) as (scene, deed):
        frozen = case.fault is Fault.FROZEN
        process = scene.start(deed.task, timing=Timing(idle_ms=idle_ms) if frozen else Timing())
        try:
            step = _reach(process, case.step)
            strike(ground.proxy, process, step, case.fault, _ERRORS[number % len(_ERRORS)])
            if not frozen:
                finished(process)
            if number % 2 and isinstance(deed.task, Write):
                scene.pass_time(61)
                scene.load()  # another run takes over
            _settle(scene, deed)
            if frozen:
                _thaw(scene, process, step, deed)
        finally:
            process.kill()
        return None if VERBS[case.verb].alone else scene


def _reach(process: LiveProcess, wanted: str) -> Step:
    for name, step in steps_of(process):
        if name == wanted:
            return step
    raise EndedEarlyError(f"it ended before that step: {process.outcome}")


def _thaw(scene: Scene, process: LiveProcess, step: Step, deed: Deed) -> None:
    """All has been done without it: now that it goes on it may say that it is too late, and nothing else."""
    _outwait(scene, step)
    before, shown = scene.everything(), scene.shown()
    process.thaw()
    ended = finished(process)
    if deed.asks_again and ended.batch_ids:
        scene.load()
    elif changed := _changed(before, scene.everything()):
        raise WrongEndError(f"it has changed something when it came back ({ended}): {changed}")
    if scene.shown() != shown:
        raise WrongEndError(f"readers see something else since it came back ({ended})")
    _check(scene)


def _changed(before: Mapping[str, list[Any]], after: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """What is there now and was not there before, and the other way round."""
    return {
        name: [thing for thing in (*before[name], *after[name]) if (thing in before[name]) != (thing in after[name])]
        for name in before
        if before[name] != after[name]
    }


def _settle(scene: Scene, deed: Deed) -> None:
    """What was struck is done again, and the next run finds the rest."""
    again = scene.through(*deed.again)
    if again.error not in {"", "FatalError"}:
        raise WrongEndError(f"done again it fails: {again.error}: {again.text}")
    if not deed.done():
        raise WrongEndError(f"done again it has not done what it is for: {again}")
    scene.load()
    _check(scene)


def _check(scene: Scene) -> None:
    if found := scene.violations(quiet=True):
        raise WrongEndError("\n".join(map(str, found)))


def _outwait(scene: Scene, step: Step) -> None:
    """Until the server has given up on a transaction of which nobody has heard for long."""
    deadline = time.monotonic() + 120
    while step.inside and scene.query("SELECT 1 FROM pg_stat_activity WHERE pid = %s", step.backend):
        if time.monotonic() > deadline:
            raise WrongEndError("the server still waits for the frozen process")
        time.sleep(0.02)
