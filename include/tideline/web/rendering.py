"""Renders the templates. Whatever comes from Kafka, from people or from other software is shown as text: Jinja escapes everything."""

import re
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tideline.domain.offsets import OffsetRange
from tideline.reports.report import safe
from tideline.web.access import CSRF_HEADER

_NONE = "\N{EN DASH}"
_ENTRY = re.compile(r"(docs/runbook\.md#[a-z0-9-]+)")
_COARSE = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tideline.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "ago": ago,
        "count": count,
        "instant": instant,
        "offsets": _offsets,
        "lines": _lines,
        "plain": _plain,
        "problem": _problem,
        "segment": segment,
    }
    return made


def page(request: Request, template: str, *, code: int = 200, **values: Any) -> HTMLResponse:
    """Render a template as the answer to a request."""
    root = request.scope.get("root_path", "").rstrip("/")
    shown = (
        _environment()
        .get_template(template)
        .render(
            root=root,
            airflow=root.removesuffix("/tideline"),
            csrf_header=CSRF_HEADER,
            now=datetime.now(UTC),
            part=is_part(request),
            **values,
        )
    )
    return HTMLResponse(shown, status_code=code)


def is_part(request: Request) -> bool:
    """Return whether the page's script asks for a part of a page, and not a browser for a whole one."""
    return request.headers.get("HX-Request") == "true"


def ago(moment: datetime | None) -> str:
    """Format the time since a moment in its largest unit, such as `5 min ago`."""
    if moment is None:
        return "never"
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    return f"{roughly(seconds)} ago"


def roughly(seconds: int) -> str:
    """Format seconds in the largest unit that they fill, such as `5 min`."""
    size, unit = next(((size, unit) for size, unit in _COARSE if seconds >= size), _COARSE[-1])
    return f"{seconds // size} {unit}"


def count(number: int | None) -> str:
    """Format a number with separators; a dash where there is none."""
    return _NONE if number is None else f"{number:,}"


def instant(moment: datetime | None) -> str:
    """Format a moment in UTC, to the second."""
    return _NONE if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def segment(text: object) -> str:
    """Quote a text as one segment of a path."""
    return quote(str(text), safe="")


def _plain(text: object) -> str:
    """Show control characters with escapes, so that a record cannot change how the page reads."""
    return _NONE if text is None or text == "" else safe(str(text))


def _problem(text: str | None, root: str) -> str:
    """Show the text of an error in its lines, with a link to the entry of the runbook that it names."""
    if not text:
        return _NONE
    return Markup("\n").join(
        Markup("").join(
            Markup('<a href="{}/static/runbook.html#{}">{}</a>').format(root, part.rpartition("#")[2], part)
            if number % 2
            else safe(part)
            for number, part in enumerate(_ENTRY.split(line))
        )
        for line in text.splitlines()
    )


def _lines(text: str) -> str:
    """Do the same for a text of several lines, such as the mistakes of a declaration."""
    return "\n".join(map(safe, text.splitlines()))


def _offsets(row: dict[str, Any]) -> str:
    return str(OffsetRange(row["start_offset"], row["end_offset"]))
