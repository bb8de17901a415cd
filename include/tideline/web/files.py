"""Serves the scripts and styles of the page, and the runbook, to those who are logged in."""

from importlib.resources import files

from fastapi import APIRouter, HTTPException, Response, status

from tideline.web.access import LoggedIn

router = APIRouter(dependencies=[LoggedIn])
_KINDS = {"js": "text/javascript", "css": "text/css", "html": "text/html; charset=utf-8"}


@router.get("/static/{name}")
def static(name: str) -> Response:
    """Return one file of the package's folder."""
    folder = files("tideline.web") / "static"
    if name not in {file.name for file in folder.iterdir()} or name.rpartition(".")[2] not in _KINDS:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no such file")
    kind = _KINDS[name.rpartition(".")[2]]
    content = (folder / name).read_bytes()
    return Response(content, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})
