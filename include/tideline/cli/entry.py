"""Runs the command that the command line names, and turns what went wrong into one message and an exit code."""

import sys

from tideline.cli.app import app
from tideline.cli.output import report
from tideline.errors import TidelineError

# Importing these declares their commands, in the order in which --help lists them.
# isort: off
import tideline.cli.seeing
import tideline.cli.checking
import tideline.cli.acting  # noqa: F401
# isort: on


def main() -> None:
    """Never a traceback for what can be expected."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # not every encoding has every letter
    try:
        app()
    except TidelineError as error:
        sys.exit(report(error, as_json="--json" in sys.argv))
