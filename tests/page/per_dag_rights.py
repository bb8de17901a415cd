"""An auth manager with a right for each DAG, as FAB has them. It runs in the API server, from the plugin folder.

`partner` sees one pipeline, and a DAG that is none of Tideline. `guest` may only read them. `stranger` sees no pipeline.
"""

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

SEES = {"partner": {"clicks", "report"}, "guest": {"clicks", "report"}, "stranger": {"report"}}


class PerDagRights(SimpleAuthManager):  # type: ignore[misc]  # mypy does not follow Airflow: the class is untyped here
    """Airflow's simple auth manager, with rights for each DAG in addition."""

    def is_authorized_dag(self, *, method: Any, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        """Refuse DAGs that the user does not see."""
        allowed = SEES.get(user.get_name())
        if allowed is not None and details is not None and details.id and details.id not in allowed:
            return False
        found = super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)
        return bool(found)
