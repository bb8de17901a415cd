"""Starting a DAG run for batches that are reserved, where this shell knows an Airflow; and saying what else will write them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

import httpx

from tideline import settings
from tideline.airflow.api import AirflowApi
from tideline.errors import FatalError, RetryableError


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A DAG run that was started."""

    url: str
    is_paused: bool
    """Whether its DAG is: then it waits until somebody switches the DAG on."""


class Airflow:
    """The Airflow that this shell knows, as a person uses it.

    Raises:
        FatalError: Of every method: it refused.
        RetryableError: Of every method: it did not answer.
    """

    def __init__(self, url: str, api: AirflowApi) -> None:
        self._url = url.rstrip("/")
        self._api = api

    def version(self) -> str:
        """Airflow's own."""
        with _worded(self._url):
            return str(self._api.call("GET", "version")["version"])

    def paused(self) -> dict[str, bool]:
        """By DAG of a pipeline, whether it is paused."""
        with _worded(self._url):
            found = self._api.call("GET", "dags?tags=tideline&limit=1000")["dags"]
        return {dag["dag_id"]: dag["is_paused"] for dag in found}

    def start(self, pipeline: str, batch_id: int, reason: str) -> Started:
        """Start the pipeline's DAG for exactly one batch."""
        with _worded(self._url):
            run_id = self._api.trigger(pipeline, load="a batch", batch_id=batch_id, reason=reason)
            is_paused = self._api.call("GET", f"dags/{pipeline}")["is_paused"]
        return Started(url=f"{self._url}/dags/{pipeline}/runs/{quote(run_id, safe='')}", is_paused=is_paused)


@contextmanager
def airflow() -> Iterator[Airflow | None]:
    """A session with Airflow; None where none is configured.

    Raises:
        FatalError: It is configured in part, or refuses the login.
        RetryableError: It does not answer.
    """
    configured = settings.airflow()
    if configured is None:
        yield None
        return
    url, username, password = configured
    with _worded(url):
        api = AirflowApi(url, username, password)
    with api:
        yield Airflow(url, api)


@contextmanager
def _worded(url: str) -> Iterator[None]:
    """Its refusals and its silence, as errors that say what to do."""
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
            next_step="does it have the pipeline's DAG?",
            entry="airflow-starts-no-run",
        ) from error
    except httpx.HTTPError as error:
        raise RetryableError(
            f"Airflow at {url} did not answer: {error}",
            next_step="check TIDELINE_AIRFLOW_URL, and that Airflow is up",
            entry="airflow-starts-no-run",
        ) from error
