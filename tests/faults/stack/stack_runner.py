"""Play a schedule: each activity in a thread of its own, while ended parts of the stack are restarted."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from faults.stack import kills, operators, stack_recovery
from faults.stack.kills import Death
from faults.stack.progress import Progress
from faults.stack.restarts import Restarter
from faults.stack.stack_scene import Scene
from faults.stack.stack_schedules import Schedule
from system import System

HEALING_S = 900


def play(scene: Scene, schedule: Schedule, restarter: Restarter) -> list[Death | None]:
    """Play the whole schedule, and then heal. Return the result of each kill: None if its moment did not come."""
    pool = ThreadPoolExecutor(max_workers=32)
    try:
        deaths = [pool.submit(kills.kill_when_due, scene, kill) for kill in schedule.kills]
        activities = operators.activities(scene, schedule, lambda: not all(death.done() for death in deaths))
        restarter.until_done(Progress(scene), *deaths, *(pool.submit(activity) for activity in activities))
        healed = replace(scene, deadline=time.monotonic() + HEALING_S)
        restarter.until_done(Progress(healed), pool.submit(stack_recovery.heal, healed))
        return [death.result() for death in deaths]
    finally:
        scene.given_up.set()
        pool.shutdown(cancel_futures=True)


@contextmanager
def explained(system: System, schedule: Schedule) -> Iterator[None]:
    """Add to a failure how to play the schedule again, and where the logs are."""
    try:
        yield
    except BaseException as error:
        planned = "".join(
            f"\n    {kill.after:5.1f} s  {kill}" for kill in sorted(schedule.kills, key=lambda kill: kill.after)
        )
        error.add_note(
            f"seed {schedule.seed}: --first-seed {schedule.seed}; logs in {system.folder / 'stack'}{planned}"
        )
        raise
