"""upkeep: delete what crashes leave behind. Correctness does not depend on it, and it never touches coverage or output."""

from tideline.declaration.pipelines import Pipeline
from tideline.ledger import cleanup
from tideline.ledger.connection import Ledger


def upkeep(ledger: Ledger, pipeline: Pipeline) -> list[str]:
    """Fail attempts whose heartbeat is too old, drop staging of attempts that can no longer publish, and delete old events.

    Returns:
        One line for each thing done.

    Raises:
        RetryableError: The ledger did not answer.
    """
    return [
        *cleanup.expire_claims(ledger, pipeline.name),
        *cleanup.drop_staging(ledger, pipeline.name),
        *cleanup.prune_events(ledger, pipeline.name, pipeline.upkeep.events_days),
    ]
