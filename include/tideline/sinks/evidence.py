"""What the ledger knows of an output that is not there: whether it must exist.

Law: an output to which an attempt was to commit is never created again by Tideline itself, and none of its batches is fenced
somewhere else. The crash that would break it: storage that is not mounted looks like a table that does not exist. A fence in the
empty mount point fences nothing, and rows that are loaded there are there twice when the storage is mounted again.
"""

from collections.abc import Callable, Sequence

from tideline.declaration.pipelines import Pipeline
from tideline.domain.receipts import BatchIdentity
from tideline.ledger import intents
from tideline.ledger.connection import Ledger
from tideline.ledger.intents import Intent

Evidence = Callable[[], str | None]
"""Returns why an output must exist; None if the ledger knows of no commit to it. Asked only when the output is not there.

Raises RetryableError if the ledger does not answer.
"""

Intended = Callable[[BatchIdentity], Sequence[Intent]]
"""Returns the intents of the attempts that may have committed a batch: those that no seal has ruled out. Raises RetryableError as `Evidence` does."""


def of(ledger: Ledger, pipeline: Pipeline) -> Evidence:
    """Return what the ledger knows of the output that a pipeline declares. A batch that was only planned or claimed is no evidence."""

    def known() -> str | None:
        found = intents.newest_to(ledger, pipeline.name, pipeline.sink.output)
        return None if found is None else f"attempt {found.fence} of batch {found.batch_id} was to commit to it"

    return known


def intended(ledger: Ledger) -> Intended:
    """Return what the ledger knows of attempts that may have committed."""
    return lambda batch: () if batch.batch_id is None else intents.unsealed_of(ledger, batch.batch_id)


def none_intended(_: BatchIdentity) -> Sequence[Intent]:
    """Return no intent, as the ledger does for a batch that no attempt was to commit."""
    return ()


def nothing() -> None:
    """Return None, as the ledger does for an output that was never written."""
    return
