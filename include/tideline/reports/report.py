"""What a command shows, and a part of the page too: a JSON document, and the same as tables and texts.

Text from records or from errors of other software is shown with its control characters escaped, because the bytes of a
reject must not control a terminal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tideline.errors import TidelineError

Cell = str | int | datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table. A column whose heading begins with `>` is aligned right."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    title: str | None = None
    empty: str = "none"
    """The text to print instead of a table without rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one command shows, or one part of the page."""

    document: Mapping[str, Any]
    """The JSON document: keys in snake_case, numbers as numbers, timestamps with a zone."""
    parts: Sequence[Grid | str] = ()
    """The tables and texts that are printed without --json."""
    problem: TidelineError | None = None
    """The error that left the report incomplete. It is printed to stderr, and its exit code is used for the command."""
    exit_code: int = field(default=0)


def safe(text: str) -> str:
    r"""Return `text` with control and other unprintable characters as escapes such as `\x1b`."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def instant(moment: datetime) -> str:
    """Format a timestamp in UTC, to the second, without a space: `2026-11-21T14:00:00Z`."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
