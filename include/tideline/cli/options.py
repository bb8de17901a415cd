"""Parses arguments and options of commands. A mistake in them is a usage error: exit code 2, and a message with the expected form."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

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


@contextmanager
def usage_errors() -> Iterator[None]:
    """Convert what a parser of `tideline.domain.requests` says about a value into a usage error.

    Raises:
        typer.BadParameter: The block has raised ValueError.
    """
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


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
