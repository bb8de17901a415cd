"""Runs the command given on the command line, and turns an expected error into one message and an exit code."""

import os
import sys

from tideline import settings
from tideline.cli.app import app
from tideline.cli.output import print_error
from tideline.errors import TidelineError

# Importing these modules declares their commands, in the order in which --help lists them.
# isort: off
import tideline.cli.commands.inspect
import tideline.cli.commands.doctor
import tideline.cli.commands.decisions
import tideline.cli.commands.author
import tideline.cli.commands.deploy  # noqa: F401
# isort: on


def main() -> None:
    """Run the command. Report expected errors without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # the encoding may lack a character
    try:
        _use_local_stack()
        app()
    except TidelineError as error:
        sys.exit(print_error(error, as_json="--json" in sys.argv))
    finally:
        _flush_stdout()


def _use_local_stack() -> None:
    """Use the running local stack of this checkout, if no variable of Tideline is set, and say so on stderr."""
    if settings.is_configured() or not {"-h", "--help", "--version"}.isdisjoint(sys.argv):
        return
    folder = settings.PROJECT / ".local"
    if not (folder / "run" / "stack.json").exists():  # where no stack was ever started, commands need no psutil
        return
    from tideline.deployment import local_stack

    if local_stack.use():
        print(f"tideline: no TIDELINE_ variable is set; using the local stack in {folder}", file=sys.stderr)


def _flush_stdout() -> None:
    """Flush stdout, and ignore that its reader has closed the pipe, as `head` does.

    Otherwise Python would print an error when it flushes the rest at exit.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
