"""Play schedules of real processes, each drawn from one seed, then heal and check them."""

import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from random import Random
from typing import Any

from faults.actions import Advance, Plan, Write
from faults.drawn_schedules import OUTSIDE, schedule, without_restores
from faults.operations import CrashServer, Fault, Finish, Go, Hold, Operation, Strike
from faults.processes.ground import Ground
from faults.processes.process import HangsError
from faults.processes.process_pipelines import Output
from faults.processes.stage import LiveStage
from faults.recovery import JammedError, heal
from faults.schedule_runner import Play
from faults.schedules import Schedule
from faults.simulation.shrinking import as_python
from faults.simulation.tally import Tally
from tideline.domain.requests import OneBatch

_STRIKES = (*Strike, Strike.COMMIT_KEPT, Strike.COMMIT_LOST)
"""The strikes to draw from. Those whose effect only a real server can show occur twice."""
MORE_FAULTS = 0.6
"""The share of uninterrupted moves that are replaced by a fault."""
MOST_OPERATIONS = 24
"""Most operations of one schedule. Schedules of races have twice as many, and would take most of the time."""
CRASH_EVERY = 10
"""In one of so many schedules the server crashes, whatever else was drawn. Otherwise a small set of schedules might
have no crash."""
LOOK_AT_EVERY = 4
"""Operations between two checks."""
OUTPUTS = (
    Output.UPSERTED, Output.APPENDED, Output.APPENDED, Output.APPENDED,
    Output.UPSERTED, Output.LAKE, Output.APPENDED, Output.LAKE,
)  # fmt: skip
"""What the pipeline writes to, taken in turn. The first seeds of mutants of tables draw none of the lakes, and seeds from
`OUTSIDE` on always draw one."""
HOLDS = 2
"""Commits that are held back besides those that are drawn, where the output is a lake."""
REPLAY_EVERY = 5
"""One of so many schedules ends with a replay."""
COMMAND = "PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.processes --schedules 1 --first-seed"


def play(ground: Ground, seeds: Iterable[int]) -> tuple[Tally, str]:
    """Play schedules until one fails; return the tally, and the problem of the failed one."""
    tally = Tally()
    with ground.own_database():
        for seed in seeds:
            drawn = drawn_for(seed)
            if problems := _play(ground, drawn, seed, tally):
                found = "\n".join(problems[:5])
                return tally, f"seed {seed} fails:\n{as_python(drawn)}\n{found}\nPlay it again: {COMMAND} {seed}"
    return tally, ""


def counts(tally: Tally) -> dict[str, Any]:
    """Return all counts in plain values."""
    counted = {one.name: getattr(tally, one.name) for one in fields(tally)}
    return {name: dict(value) if isinstance(value, Counter) else value for name, value in counted.items()}


def drawn_for(seed: int) -> Schedule:
    """Return the simulation's schedule of a seed with more faults: a process costs more here, so each has to be worth
    its time."""
    with_lake = output_for(seed) is Output.LAKE and seed < OUTSIDE
    drawn, random = without_restores(schedule(seed + OUTSIDE if with_lake else seed)), Random(seed)
    operations = [_struck(random, operation) for operation in drawn.operations[:MOST_OPERATIONS]]
    if seed % CRASH_EVERY == CRASH_EVERY - 3:
        operations.insert(random.randint(0, len(operations)), CrashServer())
    if output_for(seed) is Output.LAKE:
        for _ in range(HOLDS):
            operations.insert(random.randint(0, len(operations)), Hold(1))
    return replace(drawn, operations=tuple(operations))


def output_for(seed: int) -> Output:
    """Return what the pipeline of a seed writes to."""
    return Output.LAKE if seed >= OUTSIDE else OUTPUTS[seed % len(OUTPUTS)]


def _struck(random: Random, operation: Operation) -> Operation:
    match operation:
        case Go() | Finish() if random.random() < MORE_FAULTS:
            return _near(random, Fault(random.choice(_STRIKES), operation.process, 0))
        case Fault():
            return _near(random, operation)
        case _:
            return operation


def _near(random: Random, fault: Fault) -> Fault:
    """Move a fault to a point that most likely lies before the end of the process."""
    of_commit = fault.strike in {Strike.COMMIT_KEPT, Strike.COMMIT_LOST}
    return replace(fault, after=random.randint(0, 6 if of_commit else 50))


def _play(ground: Ground, drawn: Schedule, seed: int, tally: Tally) -> list[str]:
    stage = LiveStage(ground, drawn.beginning, Random(seed), tally, output_for(seed))
    begun = Play(stage)
    try:
        for number, operation in enumerate(drawn.operations):
            begun.do(operation)
            if number % LOOK_AT_EVERY == 0 and (problems := _problems_so_far(stage, quiet=False)):
                return [f"after operation {number}, {operation}:", *problems]
        tally.rounds += heal(begun, stage)
        if stage.scene.lake:
            stage.scene.lake.land_all()
        return _problems_so_far(stage, quiet=True) or (_replayed(stage, tally) if seed % REPLAY_EVERY == 0 else [])
    except (JammedError, HangsError):
        return [*stage.broken, *stage.unexpected(), traceback.format_exc()]
    finally:
        stage.kill_all()
        tally.schedules += 1
        tally.operations.update(type(operation).__name__ for operation in drawn.operations)
        stage.count()
        stage.scene.forget()


def _problems_so_far(stage: LiveStage, *, quiet: bool) -> list[str]:
    return [*stage.broken, *stage.unexpected(), *map(str, stage.scene.violations(quiet=quiet))]


def _replayed(stage: LiveStage, tally: Tally) -> list[str]:
    """Replay the newest live batch with the same transform, and return problems: readers must see no difference."""
    scene = stage.scene
    newest = scene.query(
        "SELECT max(batch_id) FROM tideline.batch WHERE pipeline = %s AND kind = 'live' AND state = 'advanced'",
        scene.pipeline.name,
    )[0][0]
    if newest is None:
        return []
    before, run = scene.shown(), scene.run()
    request = OneBatch(batch_id=newest, replace=True)
    ended = scene.run_tasks(Plan(run=run, request=request), Write(run=run, try_number=1), Advance(run=run))
    if ended.error:
        return [f"a replay of batch {newest} fails: {ended}"]
    if scene.shown() != before:
        return [f"a replay of batch {newest} with an unchanged transform has changed what readers see"]
    tally.replays_unchanged += 1
    return [str(found) for found in scene.violations(quiet=True)]
