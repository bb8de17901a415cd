"""What `tideline doctor` looks at: the ledger, the pipelines with their brokers, and what is around them.

Each check answers in one line and never raises: what cannot be asked is itself an answer.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tideline.errors import TidelineError


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    """Works today; look at it before it does not."""
    BAD = "bad"
    """Something does not work, or a promise may be broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the report."""

    about: str
    """The ledger, Airflow, or a pipeline's name."""
    check: str
    verdict: Verdict
    found: str
    next_step: str | None = None

    def document(self) -> dict[str, str | None]:
        """For programs."""
        return {
            "verdict": str(self.verdict),
            "about": self.about,
            "check": self.check,
            "found": self.found,
            "next_step": self.next_step,
        }


def ok(about: str, check: str, found: str) -> Check:
    """As it should be."""
    return Check(about=about, check=check, verdict=Verdict.OK, found=found)


def warn(about: str, check: str, found: str, next_step: str) -> Check:
    """Worth a look."""
    return Check(about=about, check=check, verdict=Verdict.WARN, found=found, next_step=next_step)


def bad(about: str, check: str, found: str, next_step: str) -> Check:
    """Not as it should be."""
    return Check(about=about, check=check, verdict=Verdict.BAD, found=found, next_step=next_step)


def failed(about: str, check: str, error: TidelineError) -> Check:
    """The check could not be made, or what it called refused."""
    return bad(about, check, error.problem, error.next_step)


def guarded(about: str, check: str, ask: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """The checks that `ask` makes; where it fails, one line that says so."""
    try:
        yield from ask()
    except TidelineError as error:
        yield failed(about, check, error)


def listed(names: Iterable[object], *, most: int = 3) -> str:
    """The first few of many, and how many more there are."""
    found = [str(name) for name in names]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
