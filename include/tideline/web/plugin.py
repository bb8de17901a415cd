"""The plugin through which Airflow mounts the page. The plugin folder of a deployment needs one file of two lines.

from tideline.web.plugin import TidelinePlugin
__all__ = ["TidelinePlugin"]

Airflow loads plugins in every process, workers included. So the app is built only when a request arrives, which happens in the API server.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from tideline.airflow.links import BatchesLink

if TYPE_CHECKING:
    from fastapi import FastAPI

PREFIX = "/tideline"
Message = MutableMapping[str, Any]


@cache
def _built() -> "FastAPI":
    from tideline.airflow import secrets_backends  # noqa: PLC0415 - as below
    from tideline.web.app import build  # noqa: PLC0415 - imports the API server's code, which takes a second

    secrets_backends.use()
    return build()


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Answer one request."""
    built = await asyncio.to_thread(_built)  # the first time it takes a second, in which the API server answers others
    await built(scope, receive, send)


def _base_path() -> str:
    """Return the path below which Airflow is served: empty, or such as `/airflow`."""
    return "/" + "/".join(conf.get("api", "base_url", fallback="").split("/")[3:]).strip("/")


class TidelinePlugin(AirflowPlugin):  # type: ignore[misc]  # mypy does not follow Airflow: the class is untyped here
    """The page, and its entry in Airflow's navigation."""

    name = "tideline"
    fastapi_apps: ClassVar[list[dict[str, Any]]] = [{"app": app, "url_prefix": PREFIX, "name": "Tideline"}]
    operator_extra_links: ClassVar[list[Any]] = [BatchesLink()]  # Airflow shows links of classes only that it knows
    external_views: ClassVar[list[dict[str, Any]]] = [
        {
            "name": "Tideline",
            "href": f"{_base_path().rstrip('/')}{PREFIX}/",
            "url_route": "tideline",
            "destination": "nav",
            "category": "browse",
        }
    ]
