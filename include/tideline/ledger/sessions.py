"""Opens sessions with the ledger for commands and the page: in the name of an operator, or only to look."""

from collections.abc import Iterator
from contextlib import contextmanager

from tideline import settings
from tideline.ledger import queries
from tideline.ledger.connection import Ledger
from tideline.ledger.versions import require_current


@contextmanager
def ledger(
    *, actor: str | None = None, of_any_release: bool = False, variable: str = settings.LEDGER_URL
) -> Iterator[Ledger]:
    """Open a session with the ledger in the name of the operator.

    Args:
        actor: The name of the operator; None for the one of this shell.
        variable: The variable with the URL of the role that acts. If it is not set, the role of all processes does.
        of_any_release: Whether to accept a ledger that is older or newer than this code, as a command that diagnoses it must.

    Raises:
        FatalError: The ledger refused a statement, because its user lacks the right or a law forbids it. Or it is of another release.
        RetryableError: The ledger did not answer.
    """
    url, variable = settings.url_of(variable)
    with Ledger(url, actor=actor or settings.actor(), variable=variable) as session:
        if not of_any_release:
            require_current(session)
        yield session


@contextmanager
def moment(session: Ledger) -> Iterator[None]:
    """Hold a read-only transaction on one consistent snapshot of the ledger. Raises the errors of `ledger`."""
    with queries.reading(session):
        yield


@contextmanager
def looking() -> Iterator[Ledger]:
    """Open a read-only session on one consistent snapshot, for commands that only inspect. Raises the errors of `ledger`."""
    with ledger(variable=settings.READER_URL) as session, moment(session):
        yield session
