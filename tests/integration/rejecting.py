"""Batches with some rejected records."""

from ledgers import claim, plan, publish, stage
from tideline.domain.states import BatchKind


def reject(ledger, attempt, stream, *offsets):
    """Stage rejects as a task does."""
    with ledger.transaction():
        ledger.run(
            "stage_rejects",
            attempt_id=attempt.attempt_id,
            stream_ids=[stream] * len(offsets),
            offsets=list(offsets),
            steps=["decode"] * len(offsets),
            reasons=["not JSON"] * len(offsets),
            **{name: [None] * len(offsets) for name in ("timestamps_ms", "keys", "values", "headers")},
        )


def load(ledger, stream, start, end, *rejected, kind=BatchKind.LIVE):
    """Publish a batch with these rejects."""
    attempt = claim(ledger, plan(ledger, {stream: (start, end)}, kind=kind))
    stage(ledger, attempt)
    reject(ledger, attempt, stream, *rejected)
    publish(ledger, attempt, written={stream: end - start - len(rejected)})
    return attempt
