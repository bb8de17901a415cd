"""Where the seeds of a run begin. Each commit plays schedules that no commit before it has played, so that a year of commits is one long run."""

import subprocess
from pathlib import Path

from tideline.settings import PROJECT

COMMIT = "commit"
WITHOUT_GIT = 1_000_000
"""Where there is no commit to ask: an unpacked archive."""
_DIGITS = 7
"""Of the commit's id: as a number they are short enough for names of topics and tables."""


def first_seed(text: str) -> int:
    """The number that is given, or that of the commit."""
    return of_commit(PROJECT) if text == COMMIT else int(text)


def of_commit(folder: Path) -> int:
    """A number that follows from the id of the commit that is checked out."""
    asked = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        answer = subprocess.run(asked, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return WITHOUT_GIT
    return int(answer.stdout[:_DIGITS], 16)
