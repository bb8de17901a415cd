"""Record in the history of a pipeline what no trigger sees. Triggers of the ledger record everything else."""

from typing import Any
from uuid import UUID

from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger, json


def record_added_column(ledger: Ledger, attempt: Attempt, *, output: str, column: str, kind: str) -> None:
    """Record that an attempt adds a column to its output, within a transaction."""
    record(
        ledger,
        "add column",
        pipeline=attempt.pipeline,
        batch_id=attempt.batch_id,
        attempt=attempt.attempt,
        output=output,
        column=column,
        type=kind,
    )


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
