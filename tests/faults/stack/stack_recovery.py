"""Do what an operator does after all faults: wait, clear failed runs, and trigger runs until there is nothing left to
do."""

from collections import Counter
from functools import partial
from random import Random

from faults.stack import arriving_records, operators
from faults.stack.stack_scene import PARTITIONS, REPLAY, Scene

_CLEARED_AT_MOST = 3
_RUNS_AT_MOST = 6
_NOTHING = {"plan": "skipped", "write": "skipped", "advance": "skipped"}


def heal(scene: Scene) -> None:
    """Heal until both pipelines have loaded everything; the pipeline that records start must do so without a manual
    run."""
    arriving_records.burst(scene, Random(scene.seed), 20)
    await_runs(scene)
    scene.insist("see the woken pipeline load what has arrived", lambda: _has_loaded_all(scene, scene.woken))
    for name in scene.pipelines:
        _run_until_nothing_is_left(scene, name)
    await_runs(scene)


def await_runs(scene: Scene) -> None:
    """Wait until every run has succeeded; clear those that have failed."""
    cleared: Counter[tuple[str, str]] = Counter()

    def all_succeeded() -> bool:
        ended = True
        for dag_id in (*scene.pipelines, REPLAY):
            for run in operators.runs(scene, dag_id):
                ended &= run["state"] == "success"
                if run["state"] == "failed":
                    place = dag_id, run["dag_run_id"]
                    assert cleared[place] < _CLEARED_AT_MOST, (
                        f"{place} fails again and again:\n{_problems(scene, *place)}"
                    )
                    scene.system.airflow.clear(*place)
                    cleared[place] += 1
        return ended

    scene.insist("see all runs end", all_succeeded)


def _has_loaded_all(scene: Scene, name: str) -> bool:
    """Return whether the pipeline's heads are at the ends of its topic."""
    ends = {partition: offset + 1 for partition, offset in sorted(scene.system.consumed(name, partitions=PARTITIONS))}
    return scene.system.heads(name) == list(ends.values())


def _run_until_nothing_is_left(scene: Scene, name: str) -> None:
    for _ in range(_RUNS_AT_MOST):
        run_id = operators.trigger(scene, name)
        await_runs(scene)
        states = scene.insist("look at the run", partial(scene.system.states, name, run_id))
        if _NOTHING.items() <= states.items():
            return
    raise AssertionError(f"after {_RUNS_AT_MOST} runs {name} still finds something to do")


def _problems(scene: Scene, dag_id: str, run_id: str) -> str:
    """Return the end of the log of each task that failed."""
    failed = [task_id for task_id, state in scene.system.states(dag_id, run_id).items() if state == "failed"]
    return "\n".join(f"{task_id}: {scene.system.log(dag_id, run_id, task_id)[-2000:]}" for task_id in failed)
