"""Check that the ledger knows a pipeline, for decisions that need no declaration of it."""

from tideline.errors import FatalError
from tideline.ledger import reservations
from tideline.ledger.connection import Ledger


def check_known(ledger: Ledger, pipeline: str) -> None:
    """Check that the ledger knows a pipeline, before a decision about it makes it known.

    Raises:
        FatalError: It does not.
    """
    with ledger.transaction():
        known = reservations.is_known(ledger, pipeline)
    if not known:
        raise FatalError(
            f"expected a pipeline that the ledger knows, found {pipeline!r}",
            next_step="check the name: tideline pipelines",
            entry="no-such-pipeline",
        )
