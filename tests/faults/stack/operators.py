"""What people do while processes die: trigger runs, fill in past hours, replace what is loaded. Whoever gets no answer asks again."""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import httpx
from confluent_kafka.admin import AdminClient

import operating
import topics
from declaring import HOUR, LAST_TICK
from faults.jobs import orders
from faults.stack import arriving_records
from faults.stack.stack_scene import PARTITIONS, REPLAY, Scene, declare, names
from faults.stack.stack_schedules import Replayed, Schedule
from system import System

WHY = "prices were wrong"
PAST_HOURS = (3, 2, 1)
"""How many hours before the last tick the intervals of the first records begin; the hourly pipeline begins with the newest of them."""
FAULTS_S = 900
"""By then everything must have happened that the schedule says."""
_ALREADY_THERE = 409


def enter(system: System, schedule: Schedule) -> Scene:
    """Declare the pipelines, let their first records arrive, those of past hours too, and switch the DAGs on; then the clock runs."""
    declare(system.folder / "pipelines", schedule.seed)
    hourly, woken = names(schedule.seed)
    admin = AdminClient({"bootstrap.servers": system.bootstrap})
    for name in (hourly, woken):
        topics.created(admin, name, PARTITIONS)
    rng = Random(schedule.seed)
    for hours in PAST_HOURS:
        moment = LAST_TICK - hours * HOUR + timedelta(minutes=5)
        arriving_records.send(system.bootstrap, hourly, orders.records(rng, 25), moment=moment)
    arriving_records.send(system.bootstrap, woken, orders.records(rng, 50))
    for dag_id in (REPLAY, hourly, woken):
        system.airflow.unpause(dag_id)
    now = time.monotonic()
    return Scene(system=system, seed=schedule.seed, begin=now, deadline=now + FAULTS_S)


def leave(scene: Scene) -> None:
    """Switch the DAGs off and take the declarations away: the next schedule has its own."""
    for name in scene.pipelines:
        with suppress(httpx.HTTPError):
            scene.system.airflow.call("PATCH", f"dags/{name}", is_paused=True)
        shutil.rmtree(scene.system.folder / "pipelines" / name)


def doings(scene: Scene, schedule: Schedule, busy: Callable[[], bool]) -> list[Callable[[], None]]:
    """What is to be done side by side; `busy` says whether somebody still waits for a task."""
    return [
        lambda: arriving_records.arrivals(scene, schedule, busy),
        lambda: run_by_hand(scene, schedule, busy),
        lambda: backfill(scene, schedule),
        *(lambda n=n, at=at, what=what: replay(scene, n, at, what) for n, (at, what) in enumerate(schedule.replays)),
    ]


def run_by_hand(scene: Scene, schedule: Schedule, busy: Callable[[], bool]) -> None:
    """Somebody wants what is new, at times that have nothing to do with the runs that go on."""
    for after in schedule.hands:
        scene.pause_until(after)
        trigger(scene, scene.hourly)
    while busy():
        scene.pause(3)
        if scene.insist("look at the runs", lambda: [is_quiet(scene, scene.hourly)])[0]:
            trigger(scene, scene.hourly)


def is_quiet(scene: Scene, dag_id: str) -> bool:
    """Whether no run of a DAG is queued or running."""
    return all(run["state"] in {"success", "failed"} for run in runs(scene, dag_id))


def runs(scene: Scene, dag_id: str) -> list[dict[str, Any]]:
    """Every run of a DAG that belongs to this schedule."""
    found = scene.system.airflow.call("GET", f"dags/{dag_id}/dagRuns?limit=100&order_by=-id")["dag_runs"]
    return [run for run in found if dag_id != REPLAY or run["conf"]["pipeline"] == scene.hourly]


def trigger(scene: Scene, dag_id: str, **conf: Any) -> str:
    """Start a run, once, however often it has to be asked for; its id."""
    run_id = f"by_hand_{time.time():.3f}"

    def asked() -> bool:
        try:
            scene.system.airflow.trigger(dag_id, run_id=run_id, **conf)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != _ALREADY_THERE:  # an answer was lost
                raise
        return True

    scene.insist(f"trigger {dag_id}", asked)
    return run_id


def backfill(scene: Scene, schedule: Schedule) -> None:
    """Somebody fills in the hours before the stream's start."""
    after, count = schedule.backfill
    scene.pause_until(after)
    first, last = (LAST_TICK - hours * HOUR for hours in (1 + count, 2))

    def asked() -> bool:
        if not scene.system.airflow.call("GET", f"backfills?dag_id={scene.hourly}")["backfills"]:
            operating.backfill(scene.system, scene.hourly, first, last)
        return True

    scene.insist("start a backfill", asked)


def replay(scene: Scene, number: int, after: float, what: Replayed) -> None:
    """Somebody replaces what was loaded: a batch, its ranges, or everything of the hour that the stream began with."""
    scene.pause_until(after)
    batch_id, ranges = scene.insist("find a batch to replay", lambda: _loaded(scene, number))
    asked = {
        Replayed.BATCH: {"batch_id": batch_id},
        Replayed.RANGES: {"ranges": ranges},
        Replayed.WINDOW: {"window_start": (LAST_TICK - HOUR).isoformat(), "window_end": LAST_TICK.isoformat()},
    }[what]
    trigger(scene, REPLAY, pipeline=scene.hourly, reason=WHY, **asked)


def _loaded(scene: Scene, number: int) -> tuple[int, list[str]] | None:
    """A batch whose offsets are in the output, and these."""
    found = scene.system.rows(
        "SELECT batch_id FROM tideline.batch WHERE pipeline = %s AND kind = 'live' AND state = 'advanced' ORDER BY batch_id",
        scene.hourly,
    )
    if not found:
        return None
    [batch_id] = found[number % len(found)]
    ranges = scene.system.ranges(batch_id)
    return batch_id, [f"{scene.hourly}/{partition} [{start}, {end})" for partition, (start, end) in ranges.items()]
