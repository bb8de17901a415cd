"""Find the components of Airflow that live and do nothing: they have sent no heartbeat for minutes.

A scheduler that loses its database ends, and in Airflow 3.3 the end of a LocalExecutor may wait for ever: it sends one mark to end for each
worker that lives at that moment, so a worker that has taken a mark and ended before it is counted leaves one worker without a mark. The process
lives on, so whatever restarts only what has ended would let all runs wait for ever.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import cast

import httpx

HEALTH = "/api/v2/monitor/health"
SILENT_S = 180.0
"""Seconds without a heartbeat after which a component hangs. A healthy one sends one every few seconds,
and takes a minute to start on a slow machine."""
ASK_EVERY_S = 30.0
"""Seconds between two questions. Each takes 50 ms of processor time."""


class Heartbeats:
    """The last heartbeat of each component, and since when it is the last one.

    Only changes count, on a clock that stands still while the machine sleeps: neither a wrong clock nor a laptop that wakes makes a component hang.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, float]] = {}

    def note(self, found: Mapping[str, str | None], now: float) -> None:
        """Note what Airflow has answered.

        Args:
            found: The time of the last heartbeat by component. One that is missing is not blamed: with the API server or its
                database away, no component can send a heartbeat.
            now: Seconds on the monotonic clock.
        """
        before = self._last
        self._last = {}
        for component, heartbeat in found.items():
            if heartbeat is not None:
                seen, since = before.get(component, (None, now))
                self._last[component] = (heartbeat, since if seen == heartbeat else now)

    def forget(self, component: str) -> None:
        """Give a component that is started again its whole time."""
        self._last.pop(component, None)

    def silent(self, now: float) -> list[str]:
        """Return the components that have sent no heartbeat for `SILENT_S`."""
        return [component for component, (_, since) in self._last.items() if now - since > SILENT_S]


def reports(client: httpx.Client, component: str, since: datetime) -> bool:
    """Return whether the last heartbeat is not older than `since`: an older one may be from a component that has since stopped."""
    heartbeat = last_heartbeat(answer(client, HEALTH) or {}, component)
    return heartbeat is not None and datetime.fromisoformat(heartbeat) >= since


def last_heartbeat(health: Mapping[str, Mapping[str, str | None]], component: str) -> str | None:
    """Return the time of the last heartbeat in an answer of the health address; None where it is not known."""
    return health.get(component, {}).get(f"latest_{component}_heartbeat")


def answer(client: httpx.Client, path: str) -> dict[str, dict[str, str | None]] | None:
    """Return what the API server answers; None while it does not, or answers with an error."""
    try:
        answered = client.get(path)
    except httpx.TransportError:
        return None
    return cast("dict[str, dict[str, str | None]]", answered.json()) if answered.is_success else None
