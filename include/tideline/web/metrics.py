"""`/tideline/metrics`: the numbers of all pipelines, for Prometheus and others that read OpenMetrics text.

Airflow does not authenticate the apps of plugins. Who reads the numbers has the token, or is logged in to Airflow and sees the pipelines whose DAG
Airflow shows to that user. The numbers hold names of topics and pipelines, and no content of records.
"""

import asyncio
import hmac
import logging
from collections.abc import Callable
from functools import partial
from typing import Annotated

from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from fastapi import APIRouter, Depends, Request, Response, status
from fastapi.responses import PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials
from starlette.exceptions import HTTPException

from tideline import settings
from tideline.errors import FatalError
from tideline.metrics.collecting import collect
from tideline.metrics.sheet import CONTENT_TYPE
from tideline.web import access

log = logging.getLogger(__name__)
router = APIRouter()
Visible = Callable[[set[str]], set[str]]
"""Returns those of some pipelines that the reader may see."""
Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer_scheme)]


async def reader(request: Request, bearer: Bearer) -> Visible | None:
    """Return what the reader may see; None if there is neither the token nor a login."""
    # In a thread: the token may be in a file, or in a secrets backend of Airflow, which can take long to answer.
    if bearer is not None and await asyncio.to_thread(is_token, bearer.credentials):
        return lambda pipelines: pipelines
    try:
        user = await get_user(request, None, bearer)
    except HTTPException:  # Airflow refuses what is no token of its own with 401 or 403
        return None
    return partial(access.visible, user)


def is_token(given: str) -> bool:
    """Return whether this is the configured token. The comparison takes as long for a wrong token that is nearly right."""
    try:
        token = settings.metrics_token()
    except FatalError as error:
        log.error("%s", error)  # noqa: TRY400 - the message says it all
        return False
    return token is not None and hmac.compare_digest(given.encode(), token.encode())


@router.get("/metrics")
def metrics(visible: Annotated[Visible | None, Depends(reader)]) -> Response:
    """Return the numbers. What the ledger or a broker does not answer is missing, and a number says so."""
    if visible is None:
        refusal = "no token and no login: see docs/monitoring.md\n"
        return PlainTextResponse(refusal, status.HTTP_401_UNAUTHORIZED, headers={"WWW-Authenticate": "Bearer"})
    sheet, problems = collect()
    for problem in problems:
        log.warning("%s", problem)
    sheet.only(visible(sheet.pipelines()))
    return Response(sheet.openmetrics(), media_type=CONTENT_TYPE, headers={"Cache-Control": "no-store"})
