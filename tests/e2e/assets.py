"""Assets in Airflow: their consumers and their events."""

from typing import Any
from urllib.parse import quote

from system import System


def described(system: System, asset: str) -> dict[str, Any]:
    """Return everything that Airflow says about an asset."""
    found = system.airflow.call("GET", f"assets?name_pattern={quote(asset)}&limit=100")["assets"]
    (exact,) = [each for each in found if each["name"] == asset]
    return dict(exact)


def events(system: System, asset: str) -> list[dict[str, Any]]:
    """Return the events of an asset, oldest first."""
    path = f"assets/events?asset_id={described(system, asset)['id']}&order_by=timestamp&limit=100"
    return list(system.airflow.call("GET", path)["asset_events"])
