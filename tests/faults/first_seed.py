"""Determine the first seed of a test run.

Each commit plays schedules that no earlier commit has played, so that a year of commits covers as many schedules as
one long run.
"""

import subprocess
from pathlib import Path

from tideline.settings import PROJECT

COMMIT = "commit"
WITHOUT_GIT = 1_000_000
"""First seed if there is no git commit, as in an unpacked archive."""
_DIGITS = 7
"""Hex digits of the commit id that are used. As a number they are short enough for the names of topics and tables."""


def first_seed(text: str) -> int:
    """Return the given number, or the one derived from the current commit."""
    return of_commit(PROJECT) if text == COMMIT else int(text)


def of_commit(folder: Path) -> int:
    """Return a number derived from the id of the checked-out commit."""
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return WITHOUT_GIT
    return int(answer.stdout[:_DIGITS], 16)
