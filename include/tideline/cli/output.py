"""What a command says: tables for people on stdout, one JSON document for programs, errors on stderr.

Owns how things look and nothing of what they say: the other rooms hand it a `Page`. Text that comes out of records or
out of other people's errors is shown without control characters: a reject must not be able to write to a terminal.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tideline.errors import TidelineError

if TYPE_CHECKING:
    from rich.table import Table

Cell = str | int | datetime | None

_STYLES = {
    "ok": "green",
    "published": "green",
    "advanced": "green",
    "active": "green",
    "new": "cyan",
    "planned": "cyan",
    "writing": "cyan",
    "warn": "yellow",
    "stopping": "yellow",
    "waiting": "yellow",
    "skipped": "yellow",
    "failed batches": "red",
    "bad": "bold red",
    "failed": "red",
    "lost": "red",
    "stopped": "red",
    "stopped streams": "red",
    "missing": "bold red",
    "broken declaration": "red",
}
_LONG = {
    "detail",
    "found",
    "key",
    "problem",
    "ranges",
    "reason",
    "run",
    "task",
    "value",
    "what to do",
    "where",
    "who",
    "why",
}
"""Columns that a narrow terminal may break into lines. The others stay whole: half a number is a wrong number."""
_NARROWEST = 12
"""Characters of a long column in a narrow terminal."""
_WIDE = 1_000_000
"""No terminal, no edge to wrap at: each row stays one line for whoever reads it with other programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table. A heading that begins with `>` stands right."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    title: str | None = None
    empty: str = "none"
    """What to say in place of a table without rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All that one command has found."""

    document: Mapping[str, Any]
    """For programs: keys in snake_case, numbers as numbers, moments with a zone."""
    parts: Sequence[Grid | str] = ()
    """For people."""
    problem: TidelineError | None = None
    """What kept the page from being whole; it goes to stderr, and its exit code becomes the command's."""
    exit_code: int = field(default=0)


def show(page: Page, *, as_json: bool) -> int:
    """Print a page; returns the exit code of the command."""
    if as_json:
        print(json.dumps(page.document, indent=2, default=_plain))
    else:
        _print(page.parts)
    problem_code = report(page.problem, as_json=as_json) if page.problem else 0
    return max(page.exit_code, problem_code)


def report(error: TidelineError, *, as_json: bool) -> int:
    """Say an error on stderr; returns its exit code."""
    if as_json:
        text = json.dumps({"error": error.problem, "next_step": error.next_step, "entry": error.entry})
    else:
        text = "\n".join(map(safe, str(error).split("\n")))
    print(text, file=sys.stderr)
    return error.exit_code


def safe(text: str) -> str:
    r"""`text` with everything that a terminal would obey, or not show, as escapes such as `\x1b`."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def instant(moment: datetime) -> str:
    """In UTC, to the second, without a space: `2026-11-21T14:00:00Z`."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _plain(value: object) -> str:
    """What JSON has no form for."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _print(parts: Sequence[Grid | str]) -> None:
    from rich.console import Console
    from rich.text import Text

    terminal = sys.stdout.isatty()
    console = Console(highlight=False, width=None if terminal else _WIDE)
    with console.capture() as captured:
        for number, part in enumerate(parts):
            if number:
                console.line()
            if isinstance(part, Grid) and part.rows:
                if part.title:
                    console.print(Text(part.title, style="bold"))
                table = _table(part, terminal=terminal)
                wanted = console.width
                console.width = max(
                    wanted, console.measure(table, options=console.options.update(max_width=_WIDE)).minimum
                )
                console.print(table)
                console.width = wanted
            else:
                text = part if isinstance(part, str) else f"{part.title}: {part.empty}" if part.title else part.empty
                console.print(Text("\n".join(map(safe, text.split("\n")))))
    # Cells are filled up to their column's width: the last of a line would end in spaces.
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _table(grid: Grid, *, terminal: bool) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD if terminal else None,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1) if terminal else (0, 2, 0, 0),
    )
    rows = [[_text(cell, terminal=terminal) for cell in row] for row in grid.rows]
    for number, heading in enumerate(grid.columns):
        name = heading.removeprefix(">")
        longest = max(len(name), *(len(row[number]) for row in rows))
        table.add_column(
            name,
            justify="right" if name != heading else "left",
            no_wrap=name not in _LONG,
            overflow="fold",
            min_width=min(longest, _NARROWEST) if name in _LONG else longest,
        )
    for row in rows:
        table.add_row(*(Text(text, style=_STYLES.get(text, "")) for text in row))
    return table


def _text(cell: Cell, *, terminal: bool) -> str:
    match cell:
        case None:
            return "-"
        case datetime():
            return instant(cell)
        case int():
            return f"{cell:,}" if terminal else str(cell)
        case str():
            return safe(cell.strip().splitlines()[0]) if cell.strip() else "-"
