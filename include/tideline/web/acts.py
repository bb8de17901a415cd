"""The acts of a person. Each shows first what it would do, then asks for a reason, and calls the same verb as the command line.

What is confirmed is what was shown: the form of the reason carries the values of the dry run.
"""

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, HTTPException, Request, status
from fastapi.responses import HTMLResponse

from tideline.web import answers
from tideline.web.access import Acted, User, name_of
from tideline.web.deeds import DEEDS, Deed, MistakeError
from tideline.web.rendering import page

router = APIRouter(prefix="/pipelines/{pipeline}/acts/{act}")
_MOST_BYTES = 20_000


def _deed(act: str) -> Deed:
    if act not in DEEDS:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no act {act}")
    return DEEDS[act]


async def _form(request: Request) -> dict[str, str]:
    body = bytearray()
    async for part in request.stream():  # stops at the limit, instead of holding whatever is sent in memory
        body += part
        if len(body) > _MOST_BYTES:
            raise HTTPException(status.HTTP_413_CONTENT_TOO_LARGE, "the form is too long")
    try:
        given = parse_qs(body.decode("utf-8"), strict_parsing=bool(body))
    except ValueError as error:
        raise HTTPException(status.HTTP_400_BAD_REQUEST, "expected a form in UTF-8") from error
    return {name: values[-1].strip() for name, values in given.items()}


Chosen = Annotated[Deed, Depends(_deed)]
Form = Annotated[dict[str, str], Depends(_form)]


@router.get("")
def ask(request: Request, pipeline: Acted, deed: Chosen) -> HTMLResponse:
    """Show the form of an act, filled in as the address says."""
    return page(request, "act.html", pipeline=pipeline, deed=deed, given=request.query_params)


@router.post("/dry-run")
def dry_run(request: Request, pipeline: Acted, deed: Chosen, form: Form) -> HTMLResponse:
    """Show what an act would do. Change nothing."""
    given = deed.values(form)
    try:
        found = deed.dry_run(pipeline, given)
    except MistakeError as mistake:
        return page(request, "mistake.html", mistake=str(mistake))
    return page(request, "dry_run.html", pipeline=pipeline, deed=deed, given=given, parts=found.parts)


@router.post("")
def carry_out(request: Request, pipeline: Acted, user: User, deed: Chosen, form: Form) -> HTMLResponse:
    """Carry out an act, under the name of the person."""
    reason = form.get("reason", "")
    if not reason:
        return page(request, "mistake.html", mistake="Say why: the reason is stored in the history.")
    try:
        done = deed.act(pipeline, deed.values(form), reason, name_of(user))
    except MistakeError as mistake:
        return page(request, "mistake.html", mistake=str(mistake))
    finally:
        answers.forget(pipeline)
    starts = done.document.get("batch_ids", []) if deed.starts_runs else []
    return page(request, "done.html", pipeline=pipeline, parts=done.parts, starts=starts, reason=reason)
