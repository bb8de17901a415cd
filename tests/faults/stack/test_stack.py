"""L3: the whole stack with Airflow. Each of its processes dies in each schedule, if its moment comes, and everything is loaded exactly once."""

from contextlib import ExitStack

import pytest

from faults.checker import watch
from faults.jobs import orders
from faults.share import COMMIT, SOAK
from faults.stack import people, playing, schedules, verdict
from faults.stack.schedules import PARTS, Victim
from faults.stack.tending import Tending

DRIVERS_S = 180
LOOK_S = 1.0
"""Between two looks of a watch: more of them would only slow the stack down."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        config = metafunc.config
        first, share = config.getoption("--first-seed"), SOAK if config.getoption("--soak") else COMMIT
        metafunc.parametrize("seed", range(first, first + share.stack))


def test_whichever_process_of_the_stack_dies_every_record_is_loaded_exactly_once(system, seed, tally):
    schedule = schedules.schedule(seed)
    tending = Tending(system.stack, schedule.down)
    with playing.explained(system, schedule), ExitStack() as after:
        scene = people.enter(system, schedule)
        after.callback(people.leave, scene)
        watches = [after.enter_context(watch(system.url, n, orders.table_of(n), every=LOOK_S)) for n in scene.pipelines]
        placed = playing.play(scene, schedule, tending)
        deaths = [death for death in placed if death is not None]
        missed = set(Victim) - {death.victim for death in deaths}
        print(f"seed {seed}: {len(deaths)} kills; the moment did not come for: {', '.join(sorted(missed)) or 'none'}")
        assert not missed & set(PARTS)
        for name, watched in zip(scene.pipelines, watches, strict=True):
            assert watched.looks
            assert (verdict.broken_laws(scene, name), watched.violations) == ([], [])
        assert verdict.premature(scene) == []
        tending.until(lambda: not verdict.drivers(system), "the last driver to end", seconds=DRIVERS_S)
        tally("stack", seed=seed, missed=sorted(missed))
        for death in deaths:
            tally("stack", seed=seed, killed=death.text, recovery_s=verdict.recovery(scene, death, tending.restarts))
