"""Airflow's REST API as the command line, the demo and the tests use it: log in, trigger, clear, wait, read logs. Does not import Airflow."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode

import httpx

from tideline.errors import RetryableError

T = TypeVar("T")

_DONE = {"success", "failed"}
_LOOK_EVERY_S = 0.3
# Each look costs Airflow's API server some hundredths of a second of a processor that the run needs as well.
_LOOK_AT_RUNS_EVERY_S = 1.0


class AirflowApi:
    """A session with one Airflow, as one user; a context manager that closes its connections.

    Args:
        base_url: Where Airflow is.
        username: Who acts.
        password: Their password.
    """

    def __init__(self, base_url: str, username: str, password: str) -> None:
        self._client = httpx.Client(base_url=base_url, timeout=60, trust_env=False)
        token = self._client.post("/auth/token", json={"username": username, "password": password})
        token.raise_for_status()
        self._client.headers["Authorization"] = f"Bearer {token.json()['access_token']}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def call(self, method: str, path: str, **body: Any) -> Any:
        """One call of `/api/v2`.

        Raises:
            httpx.HTTPStatusError: Airflow refused it; its answer is in the text.
        """
        answer = self._client.request(method, f"/api/v2/{path}", json=body or None)
        if answer.is_error:
            raise httpx.HTTPStatusError(
                f"{method} {path}: {answer.status_code} {answer.text}", request=answer.request, response=answer
            )
        return answer.json() if answer.content else None

    def unpause(self, dag_id: str, *, seconds: float = 120) -> None:
        """Switch a DAG on, waiting until Airflow has parsed it."""
        self.wait(
            lambda: dag_id in {dag["dag_id"] for dag in self.call("GET", "dags?limit=200")["dags"]},
            f"DAG {dag_id} to be parsed",
            seconds=seconds,
        )
        self.call("PATCH", f"dags/{dag_id}", is_paused=False)

    def trigger(self, dag_id: str, *, run_id: str | None = None, **conf: Any) -> str:
        """Start a run by hand; its id."""
        given = {"dag_run_id": run_id} if run_id else {}
        run = self.call("POST", f"dags/{dag_id}/dagRuns", logical_date=None, conf=conf, **given)
        return str(run["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """One run as Airflow describes it."""
        found: dict[str, Any] = self.call("GET", f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}")
        return found

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """The task instances of a run by task id."""
        found = self.call("GET", f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances")
        return {task["task_id"]: task for task in found["task_instances"]}

    def finished(self, dag_id: str, run_id: str, *, seconds: float = 600) -> str:
        """Wait for the end of a run; its state."""
        what = f"run {run_id} of {dag_id} to end"
        return str(self.wait(lambda: self._end(dag_id, run_id), what, seconds=seconds, every=_LOOK_AT_RUNS_EVERY_S))

    def _end(self, dag_id: str, run_id: str) -> str | None:
        state = self.run(dag_id, run_id)["state"]
        return state if state in _DONE else None

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
        """Run a DAG for the past intervals that begin at `first` to `last` and wait for their end; states by run id.

        Args:
            dag_id: The DAG.
            first: Where the first interval begins, with a zone.
            last: Where the last one begins.
            reprocess: What becomes of intervals that had a run: `none`, `failed`, or `completed` for all. Their runs keep their id.
            seconds: How long to wait.
            conf: For each of the runs.
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
        query = urlencode({"logical_date_gte": first.isoformat(), "logical_date_lte": last.isoformat(), "limit": 1000})

        def ended() -> dict[str, str] | None:
            found = self.call("GET", f"dags/{dag_id}/dagRuns?{query}")["dag_runs"]
            # The others are of before: a run of an interval that is left as it was.
            own = [run for run in found if run["queued_at"] and datetime.fromisoformat(run["queued_at"]) >= begin]
            done = {run["dag_run_id"]: str(run["state"]) for run in own}
            return done if set(done.values()) <= _DONE else None

        what = f"the backfill of {dag_id} to end"
        return self.wait(lambda: ended() or None, what, seconds=seconds, every=_LOOK_AT_RUNS_EVERY_S)

    def clear(self, dag_id: str, run_id: str, *task_ids: str) -> None:
        """Run tasks of a run again; all of them where none is named."""
        given = {"task_ids": list(task_ids)} if task_ids else {}
        self.call(
            "POST", f"dags/{dag_id}/clearTaskInstances", dag_run_id=run_id, dry_run=False, only_failed=False, **given
        )

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Set a task's state by hand, as a person does in the UI; downstream tasks that failed run again."""
        self.call("PATCH", f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}", new_state=state)

    def returned(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """What a task returned, from XCom."""
        path = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}/xcomEntries/return_value"
        return self.call("GET", path)["value"]

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int) -> Iterator[str]:
        """The lines of a task's log, with the errors that it ended with."""
        path = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}/logs/{try_number}?full_content=true"
        for entry in self.call("GET", path)["content"]:
            yield str(entry["event"])
            for error in entry.get("error_detail") or ():
                yield f"{error['exc_type']}: {error['exc_value']}"

    @staticmethod
    def wait(condition: Callable[[], T | None], what: str, *, seconds: float, every: float = _LOOK_EVERY_S) -> T:
        """The first value of `condition` that is true, which is looked at once in `every` seconds.

        Raises:
            RetryableError: It did not come true in time.
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
