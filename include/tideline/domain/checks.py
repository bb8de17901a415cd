"""What `tideline doctor` and `tideline validate` have checked: one line for each thing, or for each that could not be checked.

One that cannot be made is reported as bad, or as not checked.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The result of a check, in ascending order of severity."""

    OK = "ok"
    WARN = "warn"
    """It works today, but may cause a failure later; or the parser of SQL does not understand it, and Postgres may."""
    NOT_CHECKED = "not checked"
    BAD = "bad"
    """Something does not work, or a guarantee may be violated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the report."""

    about: str
    """The subject: `ledger`, `airflow`, `packages`, or a pipeline's name."""
    check: str
    """What of it: the name of the check, or the file, with the line if it is known, or the table."""
    verdict: Verdict
    found: str
    """What was found, and what was expected instead if that is wrong."""
    next_step: str | None = None


def ok(about: str, check: str, found: str) -> Check:
    """Return a check that passed."""
    return Check(about=about, check=check, verdict=Verdict.OK, found=found)


def warn(about: str, check: str, found: str, next_step: str) -> Check:
    """Return a check with a warning."""
    return Check(about=about, check=check, verdict=Verdict.WARN, found=found, next_step=next_step)


def bad(about: str, check: str, found: str, next_step: str) -> Check:
    """Return a check that failed."""
    return Check(about=about, check=check, verdict=Verdict.BAD, found=found, next_step=next_step)


def listed(names: Iterable[object], *, most: int = 3) -> str:
    """Join the first `most` names, and append the number of the others."""
    found = [str(name) for name in names]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
