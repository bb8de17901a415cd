"""Do what operators do while processes are killed: trigger runs, backfill past hours, replay. A request without an
answer is repeated."""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import httpx
from confluent_kafka.admin import AdminClient

import operator_acts
from declared_pipelines import HOUR, LAST_TICK
from faults.jobs import orders, read_back
from faults.stack import arriving_records
from faults.stack.stack_scene import PARTITIONS, REPLAY, Scene, declare, names, outputs
from faults.stack.stack_schedules import Replayed, Schedule
from given_topics import topics
from system import System

WHY = "prices were wrong"
PAST_HOURS = (3, 2, 1)
"""Hours before the last tick at which the intervals of the first records begin. The hourly pipeline starts with the
newest interval."""
FAULTS_S = 900
"""Seconds within which everything in the schedule must have happened."""
_ALREADY_THERE = 409


def set_up(system: System, schedule: Schedule) -> Scene:
    """Declare the pipelines, send their first records, also for past hours, and unpause the DAGs. The time of the
    schedule begins then."""
    declare(system.folder, schedule.seed)
    hourly, woken = names(schedule.seed)
    admin = AdminClient({"bootstrap.servers": system.bootstrap})
    for name, output in outputs(schedule.seed, system.folder).items():
        topics.created(admin, name, PARTITIONS)
        read_back.create_topics(output, system.bootstrap)
    rng = Random(schedule.seed)
    for hours in PAST_HOURS:
        moment = LAST_TICK - hours * HOUR + timedelta(minutes=5)
        arriving_records.send(system.bootstrap, hourly, orders.records(rng, 25), moment=moment)
    arriving_records.send(system.bootstrap, woken, orders.records(rng, 50))
    for dag_id in (REPLAY, hourly, woken):
        system.airflow.unpause(dag_id)
    now = time.monotonic()
    return Scene(system=system, seed=schedule.seed, begin=now, deadline=now + FAULTS_S)


def tear_down(scene: Scene) -> None:
    """Pause the DAGs and delete the declarations: the next schedule has its own."""
    for name in scene.pipelines:
        with suppress(httpx.HTTPError):
            scene.system.airflow.call("PATCH", f"dags/{name}", is_paused=True)
        shutil.rmtree(scene.system.folder / "pipelines" / name)


def activities(scene: Scene, schedule: Schedule, busy: Callable[[], bool]) -> list[Callable[[], None]]:
    """Return the parallel activities of a schedule; `busy` returns whether a fault still waits for a task."""
    return [
        lambda: arriving_records.arrivals(scene, schedule, busy),
        lambda: trigger_runs(scene, schedule, busy),
        lambda: backfill(scene, schedule),
        *(lambda n=n, at=at, what=what: replay(scene, n, at, what) for n, (at, what) in enumerate(schedule.replays)),
    ]


def trigger_runs(scene: Scene, schedule: Schedule, busy: Callable[[], bool]) -> None:
    """Trigger runs for new records, at times that are independent of the other runs."""
    for after in schedule.manual_runs:
        scene.pause_until(after)
        trigger(scene, scene.hourly)
    while busy():
        scene.pause(3)
        if scene.insist("look at the runs", lambda: [is_quiet(scene, scene.hourly)])[0]:
            trigger(scene, scene.hourly)


def is_quiet(scene: Scene, dag_id: str) -> bool:
    """Return whether no run of a DAG is queued or running."""
    return all(run["state"] in {"success", "failed"} for run in runs(scene, dag_id))


def runs(scene: Scene, dag_id: str) -> list[dict[str, Any]]:
    """Return every run of a DAG that belongs to this schedule."""
    found = scene.system.airflow.call("GET", f"dags/{dag_id}/dagRuns?limit=100&order_by=-id")["dag_runs"]
    return [run for run in found if dag_id != REPLAY or run["conf"]["pipeline"] == scene.hourly]


def trigger(scene: Scene, dag_id: str, **conf: Any) -> str:
    """Start one run, even if the request has to be repeated; return its id."""
    run_id = f"by_hand_{time.time():.3f}"

    def requested() -> bool:
        try:
            scene.system.airflow.trigger(dag_id, run_id=run_id, **conf)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != _ALREADY_THERE:  # an answer was lost
                raise
        return True

    scene.insist(f"trigger {dag_id}", requested)
    return run_id


def backfill(scene: Scene, schedule: Schedule) -> None:
    """Backfill the hours before the stream's start."""
    after, count = schedule.backfill
    scene.pause_until(after)
    first, last = (LAST_TICK - hours * HOUR for hours in (1 + count, 2))

    def requested() -> bool:
        if not scene.system.airflow.call("GET", f"backfills?dag_id={scene.hourly}")["backfills"]:
            operator_acts.backfill(scene.system, scene.hourly, first, last)
        return True

    scene.insist("start a backfill", requested)


def replay(scene: Scene, number: int, after: float, what: Replayed) -> None:
    """Replay loaded records: a batch, its ranges, or the hour at which the stream began."""
    scene.pause_until(after)
    batch_id, ranges = scene.insist("find a batch to replay", lambda: _loaded(scene, number))
    requests: dict[Replayed, dict[str, Any]] = {
        Replayed.BATCH: {"batch_id": batch_id},
        Replayed.RANGES: {"ranges": ranges},
        Replayed.WINDOW: {"window_start": (LAST_TICK - HOUR).isoformat(), "window_end": LAST_TICK.isoformat()},
    }
    trigger(scene, REPLAY, pipeline=scene.hourly, reason=WHY, **requests[what])


def _loaded(scene: Scene, number: int) -> tuple[int, list[str]] | None:
    """Return a live batch whose offsets are in the output, and its ranges."""
    found = scene.system.rows(
        "SELECT batch_id FROM tideline.batch WHERE pipeline = %s AND kind = 'live' AND state = 'advanced' ORDER BY batch_id",
        scene.hourly,
    )
    if not found:
        return None
    [batch_id] = found[number % len(found)]
    ranges = scene.system.ranges(batch_id)
    return batch_id, [f"{scene.hourly}/{partition} [{start}, {end})" for partition, (start, end) in ranges.items()]
