"""What a run was given, for who reads its log."""

from tideline.domain.requests import NamedRange
from tideline.ledger import attempts
from tideline.ledger.connection import Ledger


def describe(ledger: Ledger, batch_ids: list[int]) -> list[str]:
    """Each batch in one line: its kind and its ranges, written as a request for ranges takes them."""
    with ledger.transaction():
        return [
            f"batch {batch_id} ({ledger.rows('find_batch', batch_id=batch_id)[0]['kind']}): "
            + ", ".join(
                str(NamedRange(piece.topic, piece.partition, piece.offsets))
                for piece in attempts.ranges(ledger, batch_id)
            )
            for batch_id in batch_ids
        ]
