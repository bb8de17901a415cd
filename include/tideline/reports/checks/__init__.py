"""The checks of `tideline doctor`: of the ledger, of the pipelines with their brokers, and of the environment."""

from collections.abc import Callable, Iterable, Iterator

from tideline.domain.checks import Check, bad
from tideline.errors import TidelineError


def failed(about: str, check: str, error: TidelineError) -> Check:
    """Return a failed check for an error that prevented the check or was found by it."""
    return bad(about, check, error.problem, error.next_step)


def guarded(about: str, check: str, ask: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """Yield the checks that `ask` makes. If it raises, yield the error as one failed check."""
    try:
        yield from ask()
    except TidelineError as error:
        yield failed(about, check, error)
