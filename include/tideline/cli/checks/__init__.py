"""The checks of `tideline doctor`: of the ledger, of the pipelines with their brokers, and of the environment.

Each check reports one line and never raises: a check that cannot be made is reported as bad.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tideline.errors import TidelineError


class Verdict(StrEnum):
    """The result of a check, in ascending order of severity."""

    OK = "ok"
    WARN = "warn"
    """It works today, but may cause a failure later."""
    BAD = "bad"
    """Something does not work, or a guarantee may be violated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the report."""

    about: str
    """The subject: `ledger`, `airflow`, `packages`, or a pipeline's name."""
    check: str
    verdict: Verdict
    found: str
    next_step: str | None = None

    def document(self) -> dict[str, str | None]:
        """Return the check as a JSON object."""
        return {
            "verdict": str(self.verdict),
            "about": self.about,
            "check": self.check,
            "found": self.found,
            "next_step": self.next_step,
        }


def ok(about: str, check: str, found: str) -> Check:
    """Return a check that passed."""
    return Check(about=about, check=check, verdict=Verdict.OK, found=found)


def warn(about: str, check: str, found: str, next_step: str) -> Check:
    """Return a check with a warning."""
    return Check(about=about, check=check, verdict=Verdict.WARN, found=found, next_step=next_step)


def bad(about: str, check: str, found: str, next_step: str) -> Check:
    """Return a check that failed."""
    return Check(about=about, check=check, verdict=Verdict.BAD, found=found, next_step=next_step)


def failed(about: str, check: str, error: TidelineError) -> Check:
    """Return a failed check for an error that prevented the check or was found by it."""
    return bad(about, check, error.problem, error.next_step)


def guarded(about: str, check: str, ask: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """Yield the checks that `ask` makes. If it raises, yield the error as one failed check."""
    try:
        yield from ask()
    except TidelineError as error:
        yield failed(about, check, error)


def listed(names: Iterable[object], *, most: int = 3) -> str:
    """Join the first `most` names, and append the number of the others."""
    found = [str(name) for name in names]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
