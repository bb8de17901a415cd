"""Builds the app: its rooms, the headers of every answer, and what is shown when something does not answer."""

from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response, status
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException

from tideline.errors import RetryableError, TidelineError, UnknownPipelineError
from tideline.web import batch, decisions, metrics, overview, pipeline, rejects
from tideline.web.access import LoggedIn
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
_files = APIRouter(dependencies=[LoggedIn])
_KINDS = {"js": "text/javascript", "css": "text/css", "html": "text/html; charset=utf-8"}


@_files.get("/static/{name}")
def static(name: str) -> Response:
    """Return one file of the package's folder."""
    folder = files("tideline.web") / "static"
    if name not in {file.name for file in folder.iterdir()} or name.rpartition(".")[2] not in _KINDS:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no such file")
    kind = _KINDS[name.rpartition(".")[2]]
    content = (folder / name).read_bytes()
    return Response(content, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})


def build() -> FastAPI:
    """Return the app. Its own documentation is off: Airflow would serve it without a login."""
    app = FastAPI(title="Tideline", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.middleware("http")(_with_headers)
    app.exception_handler(TidelineError)(_not_done)
    app.exception_handler(UnknownPipelineError)(_unknown)
    app.exception_handler(StarletteHTTPException)(_refused)
    app.exception_handler(RequestValidationError)(_invalid)
    app.include_router(_files)
    for room in (overview, pipeline, batch, rejects, decisions, metrics):
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
