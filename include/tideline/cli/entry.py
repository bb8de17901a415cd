"""Runs the command that the command line names, and turns what went wrong into one message and an exit code."""

import os
import sys

from tideline.cli.app import app
from tideline.cli.output import report
from tideline.errors import TidelineError

# Importing these declares their commands, in the order in which --help lists them.
# isort: off
import tideline.cli.commands.inspect
import tideline.cli.commands.doctor
import tideline.cli.commands.operate  # noqa: F401
# isort: on


def main() -> None:
    """Never a traceback for what can be expected."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # not every encoding has every letter
    try:
        app()
    except TidelineError as error:
        sys.exit(report(error, as_json="--json" in sys.argv))
    finally:
        _finish()


def _finish() -> None:
    """A reader who leaves early, as `head` does, is no error: Python would complain when it flushes what nobody reads at its end."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
