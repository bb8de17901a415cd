"""describe: list the batches of a run for its log."""

from tideline.domain.requests import NamedRange
from tideline.ledger import attempts
from tideline.ledger.connection import Ledger


def describe(ledger: Ledger, batch_ids: list[int]) -> list[str]:
    """Return one line for each batch: its kind and its ranges, in the notation that a request for ranges accepts."""
    with ledger.transaction():
        return [
            f"batch {batch_id} ({attempts.kind_of(ledger, batch_id).value}): "
            + ", ".join(
                str(NamedRange(piece.topic, piece.partition, piece.offsets))
                for piece in attempts.ranges(ledger, batch_id)
            )
            for batch_id in batch_ids
        ]
