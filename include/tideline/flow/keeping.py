"""upkeep: clear away what crashes leave behind. Nothing here is needed for correctness, and none of it touches coverage or output."""

from tideline.ledger import keeping
from tideline.ledger.connection import Ledger
from tideline.pipelines import Pipeline


def upkeep(ledger: Ledger, pipeline: Pipeline) -> list[str]:
    """Expire claims of dead writers, drop staging that nobody can publish from, prune old events; one line for each thing done.

    Raises:
        RetryableError: The ledger did not answer.
    """
    return [
        *keeping.expire_claims(ledger, pipeline.name),
        *keeping.drop_staging(ledger, pipeline.name),
        *keeping.prune_events(ledger, pipeline.name, pipeline.upkeep.events_days),
    ]
