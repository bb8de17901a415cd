"""Who may do what. Airflow does not authenticate the apps of plugins, so every route here depends on one of these.

A pipeline's page needs the right to see its DAG, its records the right to edit the DAG, and decisions the right to start runs of the DAG.
"""

from collections.abc import Iterable
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, HTTPException, Request, status

from tideline.airflow.dags import dag_id_of

CSRF_HEADER = "X-Tideline"
"""Browsers send the login cookie by themselves. Only a page of the same origin can add this header as well."""

User = Annotated[Any, Depends(get_user)]


def name_of(user: User) -> str:
    """Return the name under which the history stores the decisions of a user."""
    return str(user.get_name())


def may_see(request: Request, user: User, pipeline: str) -> str:
    """Return the pipeline of a path if the user may see its DAG."""
    requires_access_dag(method="GET", param_dag_id=dag_id_of(pipeline))(request, user)
    return pipeline


def may_edit(request: Request, user: User, pipeline: str) -> bool:
    """Return whether the user may edit a pipeline's DAG, and so see its records."""
    try:
        requires_access_dag(method="PUT", param_dag_id=dag_id_of(pipeline))(request, user)
    except HTTPException:
        return False
    return True


def may_decide(request: Request, user: User, pipeline: str) -> bool:
    """Return whether the user may start runs of a pipeline's DAG."""
    try:
        _run_right(request, user, pipeline)
    except HTTPException:
        return False
    return True


def decidable(request: Request, user: User, pipeline: str) -> str:
    """Return the pipeline of a path if the user may start runs of its DAG, and the request comes from the page."""
    _run_right(request, user, pipeline)
    if request.method != "GET":
        _from_this_page(request)
    return pipeline


def _from_this_page(request: Request) -> None:
    """Refuse what a page of another origin has sent, in the name of a person who is logged in.

    The cookie alone does not tell: to a browser, other ports of this host and other hosts of its domain are the same site. The header alone tells
    as long as Airflow's settings allow no other origin to send it; what browsers say in `Sec-Fetch-Site` tells also then.
    """
    if CSRF_HEADER not in request.headers:
        refusal = f"a request that changes something needs the header {CSRF_HEADER}"
        raise HTTPException(status.HTTP_403_FORBIDDEN, refusal)
    if request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        refusal = "a request that changes something must come from a page of this Airflow"
        raise HTTPException(status.HTTP_403_FORBIDDEN, refusal)


def _run_right(request: Request, user: Any, pipeline: str) -> None:
    right = requires_access_dag(method="POST", access_entity=DagAccessEntity.RUN, param_dag_id=dag_id_of(pipeline))
    right(request, user)


def visible(user: User, pipelines: Iterable[str]) -> set[str]:
    """Return the pipelines whose DAG the user may see."""
    dag_ids = {pipeline: dag_id_of(pipeline) for pipeline in pipelines}
    allowed = get_auth_manager().filter_authorized_dag_ids(dag_ids=set(dag_ids.values()), user=user, method="GET")
    return {pipeline for pipeline, dag_id in dag_ids.items() if dag_id in allowed}


def is_user(user: User) -> None:
    """Require a login, and no more."""


Seen = Annotated[str, Depends(may_see)]
Decidable = Annotated[str, Depends(decidable)]
MayDecide = Annotated[bool, Depends(may_decide)]
Edits = Annotated[bool, Depends(may_edit)]
LoggedIn = Depends(is_user)
