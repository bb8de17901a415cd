"""A user of Airflow, as the demo and the tests play one: unpauses DAGs, starts and clears runs, waits for them, and reads their logs."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from tideline.errors import RetryableError
from tideline.reports.dag_runs import AirflowApi

T = TypeVar("T")

_FINAL_STATES = {"success", "failed"}
_POLL_SECONDS = 0.3
# Each poll costs Airflow's API server some hundredths of a second of CPU time, which the run needs as well.
_POLL_RUNS_SECONDS = 1.0


class AirflowUser(AirflowApi):
    """A logged-in session with one Airflow deployment."""

    def unpause(self, dag_id: str, *, seconds: float = 120) -> dict[str, Any]:
        """Unpause a DAG, after waiting at most `seconds` until Airflow has parsed it. Return it as Airflow describes it."""
        self.wait(
            lambda: dag_id in {dag["dag_id"] for dag in self.listed("dags", "dags", order_by="dag_id")},
            f"DAG {dag_id} to be parsed",
            seconds=seconds,
        )
        found: dict[str, Any] = self.call("PATCH", f"dags/{dag_id}", is_paused=False)
        return found

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Return one run as Airflow describes it."""
        found: dict[str, Any] = self.call("GET", f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}")
        return found

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """Return the task instances of a run by task id."""
        found = self.call("GET", f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances")
        return {task["task_id"]: task for task in found["task_instances"]}

    def rendered(self, dag_id: str, run_id: str, task_id: str) -> str:
        """Return the rendered templates of a task, as Airflow shows them. The list of all tasks lacks them before Airflow 3.3."""
        found = self.call("GET", f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}")
        return str(found["rendered_fields"])

    def finished(self, dag_id: str, run_id: str, *, seconds: float = 600) -> str:
        """Wait at most `seconds` for a run to end and return its final state."""
        what = f"run {run_id} of {dag_id} to end"
        return str(self.wait(lambda: self._end(dag_id, run_id), what, seconds=seconds, every=_POLL_RUNS_SECONDS))

    def _end(self, dag_id: str, run_id: str) -> str | None:
        state = self.run(dag_id, run_id)["state"]
        return state if state in _FINAL_STATES else None

    def backfill(
        self,
        dag_id: str,
        first: datetime,
        last: datetime,
        *,
        reprocess: str = "none",
        seconds: float = 600,
        **conf: Any,
    ) -> dict[str, str]:
        """Backfill the past intervals that begin at `first` to `last`, wait for the runs to end, and return their states by run id.

        Args:
            dag_id: The DAG.
            first: The start of the first interval, with a zone.
            last: The start of the last interval, with a zone.
            reprocess: Which intervals that already had a run are run again: `none`, those `failed`, or with `completed` all.
                Their runs keep their ids.
            seconds: The longest time to wait.
            conf: The conf of each run.
        """
        interval = {"from_date": first.isoformat(), "to_date": last.isoformat()}
        asked = {
            "dag_id": dag_id,
            "reprocess_behavior": reprocess,
            "max_active_runs": 3,
            "dag_run_conf": conf,
            **interval,
        }
        created = self.call("POST", "backfills", **asked)
        begin = datetime.fromisoformat(created["created_at"])

        def ended() -> dict[str, str] | None:
            found = self.listed(
                f"dags/{dag_id}/dagRuns",
                "dag_runs",
                order_by="id",
                logical_date_gte=first.isoformat(),
                logical_date_lte=last.isoformat(),
            )
            # Runs queued before the backfill belong to intervals that it does not run again.
            own = [run for run in found if run["queued_at"] and datetime.fromisoformat(run["queued_at"]) >= begin]
            done = {run["dag_run_id"]: str(run["state"]) for run in own}
            return done if set(done.values()) <= _FINAL_STATES else None

        what = f"the backfill of {dag_id} to end"
        return self.wait(lambda: ended() or None, what, seconds=seconds, every=_POLL_RUNS_SECONDS)

    def clear(self, dag_id: str, run_id: str, *task_ids: str) -> None:
        """Clear the given tasks of a run, or all of its tasks if none is given, so that they run again."""
        given = {"task_ids": list(task_ids)} if task_ids else {}
        self.call(
            "POST", f"dags/{dag_id}/clearTaskInstances", dag_run_id=run_id, dry_run=False, only_failed=False, **given
        )

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Set a task's state, as a user does in the UI. Downstream tasks that failed run again."""
        self.call("PATCH", f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}", new_state=state)

    def returned(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """Read the return value of a task from XCom."""
        path = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}/xcomEntries/return_value"
        return self.call("GET", path)["value"]

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int) -> Iterator[str]:
        """Yield the lines of a task's log, and the errors that it ended with."""
        path = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}/logs/{try_number}?full_content=true"
        for entry in self.call("GET", path)["content"]:
            yield str(entry["event"])
            for error in entry.get("error_detail") or ():
                yield f"{error['exc_type']}: {error['exc_value']}"

    @staticmethod
    def wait(condition: Callable[[], T | None], what: str, *, seconds: float, every: float = _POLL_SECONDS) -> T:
        """Call `condition` every `every` seconds until it returns a true value, and return that value.

        Raises:
            RetryableError: It returned no true value within `seconds`.
        """
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise RetryableError(
                    f"waited {seconds:.0f} s for {what}",
                    next_step="look at the run in Airflow, and at the logs of its scheduler",
                )
            time.sleep(every)
        return found
