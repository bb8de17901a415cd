"""upkeep: clear away what crashes leave behind. Nothing here is needed for correctness, and none of it touches coverage or output."""

from tideline.declaration.pipelines import Pipeline
from tideline.ledger import cleanup
from tideline.ledger.connection import Ledger


def upkeep(ledger: Ledger, pipeline: Pipeline) -> list[str]:
    """Expire claims of dead writers, drop staging that nobody can publish from, prune old events; one line for each thing done.

    Raises:
        RetryableError: The ledger did not answer.
    """
    return [
        *cleanup.expire_claims(ledger, pipeline.name),
        *cleanup.drop_staging(ledger, pipeline.name),
        *cleanup.prune_events(ledger, pipeline.name, pipeline.upkeep.events_days),
    ]
