"""L3: test the whole stack with Airflow. In each schedule processes are killed if their moment comes, by night each of
them, and every record is loaded exactly once."""

from contextlib import ExitStack

import pytest

from faults.checker import watch
from faults.share import COMMIT, SOAK
from faults.stack import operators, stack_runner, stack_schedules, stack_verdict
from faults.stack.restarts import Restarter
from faults.stack.stack_schedules import PARTS

DRIVERS_S = 180
LOOK_S = 1.0
"""Seconds between two checks of a watch; more checks would only slow the stack down."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        config = metafunc.config
        first, share = config.getoption("--first-seed"), SOAK if config.getoption("--soak") else COMMIT
        metafunc.parametrize("seed", range(first, first + share.stack))


def test_whichever_process_of_the_stack_dies_every_record_is_loaded_exactly_once(
    system, seed, share, tally, monkeypatch
):
    monkeypatch.setenv("TIDELINE_KAFKA", system.bootstrap)
    schedule = stack_schedules.schedule(seed, share.victims)
    restarter = Restarter(system.stack, schedule.down)
    with stack_runner.explained(system, schedule), ExitStack() as after:
        scene = operators.set_up(system, schedule)
        after.callback(operators.tear_down, scene)
        watches = [
            after.enter_context(watch(system.url, name, output.watched, every=LOOK_S))
            for name, output in scene.outputs.items()
        ]
        placed = stack_runner.play(scene, schedule, restarter)
        deaths = [death for death in placed if death is not None]
        missed = {kill.victim for kill in schedule.kills} - {death.victim for death in deaths}
        sinks = ", ".join(output.sink for output in scene.outputs.values())
        print(
            f"seed {seed}, into {sinks}: {len(deaths)} kills; the moment did not come for: {', '.join(sorted(missed)) or 'none'}"
        )
        assert not missed & set(PARTS)
        for name, watched in zip(scene.pipelines, watches, strict=True):
            assert watched.looks
            assert stack_verdict.outside_differences(scene, name) == []
            assert (stack_verdict.broken_laws(scene, name), watched.violations) == ([], [])
        assert stack_verdict.premature(scene) == []
        restarter.until(lambda: not stack_verdict.drivers(system), "the last driver to end", seconds=DRIVERS_S)
        tally("stack", seed=seed, sinks=sinks, missed=sorted(missed))
        for death in deaths:
            tally(
                "stack",
                seed=seed,
                killed=death.text,
                recovery_s=stack_verdict.recovery(scene, death, restarter.restarts),
            )
