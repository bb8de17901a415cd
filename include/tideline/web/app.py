"""Builds the app: its rooms, the headers of every answer, and what is shown when something does not answer."""

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, HTTPException, Request, Response, status
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException

from tideline.errors import RetryableError, TidelineError, UnknownPipelineError
from tideline.web import acts, batch, files, metrics, overview, pipeline, rejects
from tideline.web.rendering import page

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TITLES = {
    status.HTTP_401_UNAUTHORIZED: "Log in to Airflow first",
    status.HTTP_403_FORBIDDEN: "Airflow does not allow you this",
    status.HTTP_404_NOT_FOUND: "Not found",
    status.HTTP_422_UNPROCESSABLE_CONTENT: "The request has a mistake",
}


def build() -> FastAPI:
    """Return the app. Its own documentation is off: Airflow would serve it without a login."""
    app = FastAPI(title="Tideline", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.middleware("http")(_with_headers)
    app.exception_handler(TidelineError)(_not_done)
    app.exception_handler(UnknownPipelineError)(_unknown)
    app.exception_handler(StarletteHTTPException)(_refused)
    app.exception_handler(RequestValidationError)(_invalid)
    for room in (files, overview, pipeline, batch, rejects, acts, metrics):
        app.include_router(room.router)
    return app


async def _with_headers(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
    answer = await call(request)
    for name, value in _HEADERS.items():
        answer.headers[name] = value
    answer.headers.setdefault("Cache-Control", "no-store")
    return answer


def _not_done(request: Request, error: Exception) -> Response:
    """Show an error with its next step. A ledger that does not answer looks different from a request that it refuses."""
    if not isinstance(error, TidelineError):
        raise error
    away = isinstance(error, RetryableError)
    code = status.HTTP_503_SERVICE_UNAVAILABLE if away else status.HTTP_409_CONFLICT
    title = "Does not answer" if away else "Not possible"
    return page(
        request, "problem.html", code=code, title=title, problem=error.problem, next_step=error.next_step, away=away
    )


def _unknown(request: Request, _: Exception) -> Response:
    """Say no more than that there is none: the message for the command line lists all pipelines, also those that this person may not see."""
    return _refused(request, HTTPException(status.HTTP_404_NOT_FOUND, "there is no pipeline of this name"))


def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException | StarletteHTTPException):
        raise error
    title = _TITLES.get(error.status_code, "Not possible")
    return page(
        request,
        "problem.html",
        code=error.status_code,
        title=title,
        problem=str(error.detail),
        next_step=None,
        away=False,
    )


def _invalid(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    found = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors())
    code = status.HTTP_422_UNPROCESSABLE_CONTENT
    return page(request, "problem.html", code=code, title=_TITLES[code], problem=found, next_step=None, away=False)
