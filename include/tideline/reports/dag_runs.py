"""Starts DAG runs for reserved batches, if the environment configures an Airflow, and reads its version and which DAGs are paused."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlencode

import httpx

from tideline import settings
from tideline.declaration.airflow import TAG_OF_EVERY_DAG
from tideline.errors import FatalError, RetryableError

_PAGE = 100


class AirflowApi:
    """A logged-in session with one Airflow deployment. As a context manager it closes its connections.

    Args:
        base_url: The address of Airflow.
        username: The user to log in as.
        password: The password of this user.
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
        """Call `/api/v2` once and return the decoded answer.

        Raises:
            httpx.HTTPStatusError: Airflow refused the call; the message contains its answer.
        """
        answer = self._client.request(method, f"/api/v2/{path}", json=body or None)
        if answer.is_error:
            raise httpx.HTTPStatusError(
                f"{method} {path}: {answer.status_code} {answer.text}", request=answer.request, response=answer
            )
        return answer.json() if answer.content else None

    def listed(
        self, path: str, items: str, *, order_by: str, page: int = _PAGE, **query: str
    ) -> Iterator[dict[str, Any]]:
        """Yield all items of a list, page after page. Airflow returns at most 100 of them at once, whatever is asked for.

        Args:
            path: The list, such as `dags`.
            items: The name that its answer gives to the items.
            order_by: A column of the items that never changes, so that no item moves to another page.
            page: How many to ask for at once.
            query: Which items to list.
        """
        offset = 0
        while True:
            asked = urlencode({**query, "order_by": order_by, "limit": page, "offset": offset})
            found = self.call("GET", f"{path}?{asked}")
            yield from found[items]
            offset += len(found[items])
            if not found[items] or offset >= found["total_entries"]:
                return

    def trigger(self, dag_id: str, *, run_id: str | None = None, **conf: Any) -> str:
        """Trigger a manual run and return its id."""
        given = {"dag_run_id": run_id} if run_id else {}
        run = self.call("POST", f"dags/{dag_id}/dagRuns", logical_date=None, conf=conf, **given)
        return str(run["dag_run_id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A DAG run that was started."""

    url: str
    is_paused: bool
    """Whether its DAG is paused. Then the run waits until the DAG is unpaused."""


class Airflow:
    """The Airflow that the environment configures. Uses its REST API, as a user would.

    Raises:
        FatalError: Airflow refused the call. Every method may raise this.
        RetryableError: Airflow did not answer, or failed. Every method may raise this.
    """

    def __init__(self, url: str, api: AirflowApi) -> None:
        self._url = url.rstrip("/")
        self._api = api

    def version(self) -> str:
        """Return the version of Airflow."""
        with _airflow_errors(self._url):
            return str(self._api.call("GET", "version")["version"])

    def paused(self) -> dict[str, bool]:
        """Return, for each DAG of a pipeline, whether it is paused."""
        with _airflow_errors(self._url):
            found = self._api.listed("dags", "dags", order_by="dag_id", tags=TAG_OF_EVERY_DAG)
            return {dag["dag_id"]: dag["is_paused"] for dag in found}

    def has_pool(self, name: str) -> bool:
        """Return whether there is a pool of this name. Tasks of a pool that does not exist never start."""
        with _airflow_errors(self._url):
            try:
                self._api.call("GET", f"pools/{quote(name, safe='')}")
            except httpx.HTTPStatusError as error:
                if error.response.status_code == httpx.codes.NOT_FOUND:
                    return False
                raise
        return True

    def start(self, pipeline: str, batch_id: int, reason: str) -> Started:
        """Trigger a run of the pipeline's DAG for exactly one batch."""
        with _airflow_errors(self._url):
            run_id = self._api.trigger(pipeline, load="a batch", batch_id=batch_id, reason=reason)
            is_paused = self._api.call("GET", f"dags/{pipeline}")["is_paused"]
        return Started(url=f"{self._url}/dags/{pipeline}/runs/{quote(run_id, safe='')}", is_paused=is_paused)


@contextmanager
def airflow() -> Iterator[Airflow | None]:
    """Open a session with Airflow; yield None if none is configured.

    Raises:
        FatalError: It is only partly configured, or refuses the login.
        RetryableError: It does not answer.
    """
    configured = settings.airflow()
    if configured is None:
        yield None
        return
    url, username, password = configured
    with _airflow_errors(url):
        api = AirflowApi(url, username, password)
    with api:
        yield Airflow(url, api)


@contextmanager
def _airflow_errors(url: str) -> Iterator[None]:
    """Convert HTTP errors and missing answers to Tideline's errors, which name the next step."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        if code in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
            raise FatalError(
                f"Airflow at {url} refused the user (HTTP {code})",
                next_step="check TIDELINE_AIRFLOW_USERNAME and TIDELINE_AIRFLOW_PASSWORD, and what the user may do",
                entry="airflow-starts-no-run",
            ) from error
        if code >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise RetryableError(
                f"Airflow at {url} failed: {error}",
                next_step="look at its logs, then try again",
                entry="airflow-starts-no-run",
            ) from error
        raise FatalError(
            f"Airflow at {url} refused: {error}",
            next_step="check that it has the pipeline's DAG",
            entry="airflow-starts-no-run",
        ) from error
    except httpx.HTTPError as error:
        raise RetryableError(
            f"Airflow at {url} did not answer: {error}",
            next_step="check TIDELINE_AIRFLOW_URL, and that Airflow is up",
            entry="airflow-starts-no-run",
        ) from error
