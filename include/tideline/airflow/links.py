"""The link from the task `write` to the page of the batches that its run was given."""

from typing import Any
from urllib.parse import quote

from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink


class BatchesLink(BaseOperatorLink):  # type: ignore[misc]  # mypy does not follow Airflow: the class is untyped here
    """A button on the task. Airflow evaluates it in the worker when the task ends, so it knows only the run."""

    name = "Batches"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow passes it by name
        """Return the address of the page."""
        base = conf.get("api", "base_url", fallback="/").rstrip("/")
        return f"{base}/tideline/runs/{quote(ti_key.dag_id, safe='')}/{quote(ti_key.run_id, safe='')}"
