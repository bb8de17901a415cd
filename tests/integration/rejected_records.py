"""Batches with some rejected records."""

from ledgers import claim, plan, publish, stage
from tideline.domain.states import BatchKind
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger


def reject(ledger: Ledger, attempt: Attempt, stream: int, *offsets: int) -> None:
    """Stage rejects as a task does."""
    with ledger.transaction():
        ledger.run(
            "stage_rejects",
            attempt=attempt.attempt,
            stream_ids=[stream] * len(offsets),
            offsets=list(offsets),
            steps=["decode"] * len(offsets),
            reasons=["not JSON"] * len(offsets),
            **{name: [None] * len(offsets) for name in ("timestamps_ms", "keys", "values", "headers")},
        )


def load(
    ledger: Ledger, stream: int, start: int, end: int, *rejected: int, kind: BatchKind = BatchKind.LIVE
) -> Attempt:
    """Publish a batch with these rejects."""
    attempt = claim(ledger, plan(ledger, {stream: (start, end)}, kind=kind))
    stage(ledger, attempt)
    reject(ledger, attempt, stream, *rejected)
    publish(ledger, attempt, written={stream: end - start - len(rejected)})
    return attempt
