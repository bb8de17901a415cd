"""Plays a schedule: everybody does their part in a thread of their own, while the stack is looked after."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from faults.stack import healing, killing, people
from faults.stack.killing import Death
from faults.stack.progress import Progress
from faults.stack.scene import Scene
from faults.stack.schedules import Schedule
from faults.stack.tending import Tending
from system import System

HEALING_S = 900


def play(scene: Scene, schedule: Schedule, tending: Tending) -> list[Death | None]:
    """Everything that the schedule says, and then the healing. What each of its kills came to: None where its moment did not come."""
    pool = ThreadPoolExecutor(max_workers=32)
    try:
        deaths = [pool.submit(killing.die, scene, kill) for kill in schedule.kills]
        doings = people.doings(scene, schedule, lambda: not all(death.done() for death in deaths))
        tending.until_done(Progress(scene), *deaths, *(pool.submit(doing) for doing in doings))
        healed = replace(scene, deadline=time.monotonic() + HEALING_S)
        tending.until_done(Progress(healed), pool.submit(healing.heal, healed))
        return [death.result() for death in deaths]
    finally:
        scene.given_up.set()
        pool.shutdown(cancel_futures=True)


@contextmanager
def explained(system: System, schedule: Schedule) -> Iterator[None]:
    """Say with a failure how to play the schedule again, and where the logs are."""
    try:
        yield
    except BaseException as error:
        kills = "".join(
            f"\n    {kill.after:5.1f} s  {kill}" for kill in sorted(schedule.kills, key=lambda kill: kill.after)
        )
        error.add_note(f"seed {schedule.seed}: --first-seed {schedule.seed}; logs in {system.folder / 'stack'}{kills}")
        raise
