"""Detect hangs: if nothing changes for a minute, fail with a report of what every part waits for."""

import time
from collections.abc import Callable
from typing import Any

import httpx

from faults.stack.stack_scene import DISTURBED, Scene

SILENT_S = 180.0
"""Seconds without a change, while all parts of the stack are healthy, after which the schedule fails."""
_LOOK_S = 5.0
_DONE = ("success", "failed", "skipped", "upstream_failed", "removed")
_MONITORED = ("metadatabase", "scheduler", "triggerer", "dag_processor")
_BLOCKED = """
SELECT waiting.pid, waiting.application_name, left(waiting.query, 120), pg_blocking_pids(waiting.pid)
FROM pg_stat_activity waiting WHERE cardinality(pg_blocking_pids(waiting.pid)) > 0
"""
_OPEN = "SELECT pipeline, batch_id, kind::text, state::text FROM tideline.batch WHERE state NOT IN ('advanced', 'abandoned', 'superseded')"


class StuckError(Exception):
    """Nothing has changed for a minute although every part of the stack is healthy."""


class Progress:
    """Compares the state of the ledger and of Airflow with the state at the last look. A time-out of the whole could
    not distinguish slow from stuck."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._seen: Any = None
        self._changed = self._looked = time.monotonic()

    def look(self, noted: Any) -> None:
        """Look again, at most every few seconds. A change of `noted` also counts as a change.

        Raises:
            StuckError: Nothing changes any more.
        """
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        try:
            seen = (noted, self._scene.system.rows("SELECT max(event_id) FROM tideline.event"), _tasks(self._scene))
        except DISTURBED:  # a part is down, for as long as the schedule says
            self._changed = now
            return
        if seen != self._seen or not _is_healthy(self._scene):
            self._seen, self._changed = seen, time.monotonic()
        elif now - self._changed > SILENT_S:
            raise StuckError(_stuck_report(self._scene))


def _tasks(scene: Scene) -> list[tuple[str, str, str, str | None, int]]:
    found = scene.system.airflow.call("GET", "dags/~/dagRuns/~/taskInstances?limit=1000&order_by=-start_date")
    return sorted(
        (task["dag_id"], task["dag_run_id"], task["task_id"], str(task["state"]), task["try_number"])
        for task in found["task_instances"]
    )


def _is_healthy(scene: Scene) -> bool:
    health = scene.system.airflow.call("GET", "monitor/health")
    return all(health[part]["status"] == "healthy" for part in _MONITORED)


def _stuck_report(scene: Scene) -> str:
    waiting = [f"  {what}" for what in sorted(set(scene.awaited.values()))]
    tasks = [f"  {' '.join(map(str, task))}" for task in _tasks(scene) if task[3] not in _DONE]
    blocked = _rows(scene, _BLOCKED, lambda row: f"  session {row[0]} ({row[1]}) behind {row[3]}: {row[2]}")
    batches = _rows(scene, _OPEN, lambda row: f"  {row[0]} batch {row[1]} ({row[2]}) is {row[3]}")
    return "\n".join(
        [
            f"nothing has changed for {SILENT_S:.0f} s; the schedule tries to:",
            *waiting,
            "tasks that have not ended:",
            *tasks,
            "sessions that wait for a lock:",
            *blocked,
            "batches that are open:",
            *batches,
        ]
    )


def _rows(scene: Scene, sql: str, line: Callable[[tuple[Any, ...]], str]) -> list[str]:
    try:
        return [line(row) for row in scene.system.rows(sql)]
    except (*DISTURBED, httpx.HTTPError) as error:
        return [f"  (could not be asked: {error})"]
