"""Parses arguments and options of commands. A mistake in them is a usage error: exit code 2, and a message with the expected form."""

import re
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from tideline.domain.requests import NamedRange, NewRecords, OneBatch, Ranges, Request, Window

_TOPIC = re.compile(r"([A-Za-z0-9._-]+)(?:/(\d+))?", re.ASCII)
OfBatch = Annotated[int | None, typer.Option("--batch", metavar="N", min=1, help="Select the ranges of this batch.")]
OfRanges = Annotated[
    list[str] | None,
    typer.Option("--range", metavar="RANGE", help="Select a range like 'ads/3 [100, 200)'; may be repeated."),
]
FromTime = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Select records with this timestamp or a later one; requires --to."),
]
ToTime = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Select records before this timestamp.")]
UntilTime = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Select new records before this timestamp. Default: all."),
]


def reject_blank(reason: str) -> str:
    """Reject a blank reason: it is stored in the history for later readers.

    Raises:
        typer.BadParameter: The reason is blank.
    """
    if not reason.strip():
        raise typer.BadParameter("it is blank; give a reason, it is stored in the history")
    return reason.strip()


Reason = Annotated[str, typer.Option(metavar="TEXT", callback=reject_blank, help="The reason, stored in the history.")]


def target(
    *, batch: int | None, ranges: list[str] | None, start: str | None, end: str | None, replace: bool
) -> Request:
    """Return the request for one batch, ranges or a window, of which exactly one must be given.

    Raises:
        typer.BadParameter: None or several are given, or the one given is invalid.
    """
    given = [
        name for name, value in (("--batch", batch), ("--range", ranges), ("--from and --to", start or end)) if value
    ]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise typer.BadParameter(f"expected one of --batch, --range, or --from with --to; found {found}")
    if batch:
        return OneBatch(batch_id=batch, replace=replace)
    try:
        if ranges:
            return Ranges(ranges=tuple(map(NamedRange.parse, ranges)), replace=replace)
        if start is None or end is None:
            raise typer.BadParameter("a window needs both --from and --to")
        return Window(start=moment("--from", start), end=moment("--to", end), replace=replace)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def new_records(until: str | None) -> Request:
    """Return the request for all new records, or only those before `until`.

    Raises:
        typer.BadParameter: `until` is not a timestamp, or has no zone.
    """
    return NewRecords(until=moment("--until", until) if until else None)


def named_range(text: str) -> NamedRange:
    """Parse one range.

    Raises:
        typer.BadParameter: The text is not a range.
    """
    try:
        return NamedRange.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def topic_and_partition(text: str) -> tuple[str, int | None]:
    """Parse `ads`, which means all partitions, or `ads/3`, which means one.

    Raises:
        typer.BadParameter: The text is not a topic name, or the part after the slash is not a number.
    """
    found = _TOPIC.fullmatch(text)
    if not found:
        raise typer.BadParameter(f"expected TOPIC or TOPIC/PARTITION like ads/3, found {text!r}")
    topic, partition = found.groups()
    return topic, int(partition) if partition else None


def moment(name: str, text: str) -> datetime:
    """Parse a timestamp with a zone.

    Raises:
        typer.BadParameter: The text is not a timestamp, or has no zone.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{name}: expected a moment like 2026-11-21T14:00:00Z, found {text}") from None
    if found.tzinfo is None:
        raise typer.BadParameter(
            f"{name} has no zone: {text}; say which moment it means, such as {found.isoformat()}Z for UTC"
        )
    return found


def key_values(given: Iterable[str]) -> dict[str, str]:
    """Return the values of options KEY=VALUE by key. A message shows no value: it may be a secret."""
    found: dict[str, str] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not value:
            raise typer.BadParameter("--security: expected KEY=VALUE such as protocol=SSL, found something else")
        if key in found:
            raise typer.BadParameter(f"--security: expected each key once, found {key} twice")
        found[key] = value
    return found


def content(file: str) -> bytes:
    """Return the content of a file, or of stdin if `file` is `-`.

    Raises:
        typer.BadParameter: The file cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{file}: expected a file that can be read, found {error.strerror}") from error
