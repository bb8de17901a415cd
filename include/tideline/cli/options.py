"""What the options of a command ask for, as a request. A mistake in them is a usage error: exit code 2, and it says what to write."""

import re
from datetime import datetime
from typing import Annotated

import typer

from tideline.domain.requests import NamedRange, NewRecords, OneBatch, Ranges, Request, Window

_TOPIC = re.compile(r"([A-Za-z0-9._-]+)(?:/(\d+))?", re.ASCII)
OfBatch = Annotated[int | None, typer.Option("--batch", metavar="N", min=1, help="The ranges of this batch.")]
OfRanges = Annotated[
    list[str] | None,
    typer.Option("--range", metavar="RANGE", help="A range like 'ads/3 [100, 200)'; may be given several times."),
]
FromTime = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Records with this timestamp or a later one; needs --to."),
]
ToTime = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Records before this timestamp.")]
UntilTime = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="New records before this timestamp. Default: all that is there."),
]


def blank_refused(reason: str) -> str:
    """What an act's --reason goes through: it will stand in the history, for somebody who was not there."""
    if not reason.strip():
        raise typer.BadParameter("it is blank; say why, it will stand in the history")
    return reason.strip()


Reason = Annotated[str, typer.Option(metavar="TEXT", callback=blank_refused, help="Why. It will stand in the history.")]


def target(
    *, batch: int | None, ranges: list[str] | None, start: str | None, end: str | None, replace: bool
) -> Request:
    """One batch, ranges or a window: exactly one of them.

    Raises:
        typer.BadParameter: None is given, or several, or one has a mistake.
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
    """Everything behind the heads.

    Raises:
        typer.BadParameter: `until` is no moment, or has no zone.
    """
    return NewRecords(until=moment("--until", until) if until else None)


def named_range(text: str) -> NamedRange:
    """One range.

    Raises:
        typer.BadParameter: It is not written as ranges are.
    """
    try:
        return NamedRange.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def topic_and_partition(text: str) -> tuple[str, int | None]:
    """`ads` means all partitions, `ads/3` one of them.

    Raises:
        typer.BadParameter: It is no topic's name, or what stands behind the slash is no number.
    """
    found = _TOPIC.fullmatch(text)
    if not found:
        raise typer.BadParameter(f"expected TOPIC or TOPIC/PARTITION like ads/3, found {text!r}")
    topic, partition = found.groups()
    return topic, int(partition) if partition else None


def moment(name: str, text: str) -> datetime:
    """A moment with a zone.

    Raises:
        typer.BadParameter: It is none, or the zone is missing.
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
