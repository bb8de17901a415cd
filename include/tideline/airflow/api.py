"""A client of Airflow's REST API for the command line. Does not import Airflow."""

from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import urlencode

import httpx

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
