"""Prints the output of a command: tables or one JSON document on stdout, errors on stderr.

This module decides only the format; the content is a `Report` from the caller.
"""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

from tideline.errors import TidelineError
from tideline.reports.report import Cell, Grid, Report, instant, safe

if TYPE_CHECKING:
    from rich.table import Table

_STYLES = {
    "ok": "green",
    "published": "green",
    "advanced": "green",
    "active": "green",
    "new": "cyan",
    "planned": "cyan",
    "writing": "cyan",
    "warn": "yellow",
    "not checked": "yellow",
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
_WRAPPED_COLUMNS = {
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
"""Columns that may wrap in a narrow terminal. Other columns never wrap: part of a number could be read as another number."""
_MIN_WRAPPED_WIDTH = 12
"""The least width of such a column, in characters."""
_UNLIMITED_WIDTH = 1_000_000
"""The width, in characters, if stdout is not a terminal. Each row stays one line, so that other programs can parse it."""


def show(found: Report, *, as_json: bool) -> int:
    """Print a report and return the exit code of the command."""
    if as_json:
        print(json.dumps(found.document, indent=2, default=_json_value))
    else:
        _print(found.parts)
    problem_code = print_error(found.problem, as_json=as_json) if found.problem else 0
    return max(found.exit_code, problem_code)


def print_error(error: TidelineError, *, as_json: bool) -> int:
    """Print an error to stderr and return its exit code."""
    if as_json:
        text = json.dumps({"error": error.problem, "next_step": error.next_step, "entry": error.entry})
    else:
        text = "\n".join(map(safe, str(error).split("\n")))
    print(text, file=sys.stderr)
    return error.exit_code


def _json_value(value: object) -> str:
    """Convert a value that JSON has no type for. Raise TypeError for an unknown type."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _print(parts: Sequence[Grid | str]) -> None:
    from rich.console import Console
    from rich.text import Text

    terminal = sys.stdout.isatty()
    console = Console(highlight=False, width=None if terminal else _UNLIMITED_WIDTH)
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
                    wanted, console.measure(table, options=console.options.update(max_width=_UNLIMITED_WIDTH)).minimum
                )
                console.print(table)
                console.width = wanted
            else:
                text = part if isinstance(part, str) else f"{part.title}: {part.empty}" if part.title else part.empty
                console.print(Text("\n".join(map(safe, text.split("\n")))))
    # Rich pads each cell to the width of its column. Strip the spaces after the last cell of a line.
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
            no_wrap=name not in _WRAPPED_COLUMNS,
            overflow="fold",
            min_width=min(longest, _MIN_WRAPPED_WIDTH) if name in _WRAPPED_COLUMNS else longest,
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
