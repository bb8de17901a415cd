"""Record in the history of a pipeline what no trigger sees. Triggers of the ledger record everything else."""

from typing import Any
from uuid import UUID

from tideline.ledger.connection import Ledger, json


def record(
    ledger: Ledger,
    action: str,
    *,
    pipeline: str,
    batch_id: int | None = None,
    attempt: UUID | None = None,
    **detail: Any,
) -> None:
    """Record an event, with `detail` as the object of its details, within a transaction."""
    ledger.run(
        "record_event",
        action=action,
        pipeline=pipeline,
        batch_id=batch_id,
        stream_id=None,
        attempt=attempt,
        detail=json(detail),
    )
