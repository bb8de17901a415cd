"""What a run was given and what it has published, for whoever reads its log or waits for its asset."""

from tideline.domain.requests import NamedRange
from tideline.ledger import attempts, publications
from tideline.ledger.connection import Ledger
from tideline.ledger.publications import Publication
from tideline.ledger.reservations import Run


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


def published_by(ledger: Ledger, pipeline: str, run: Run) -> list[Publication]:
    """What `run` itself has published, in order, The same at every call once the run has ended."""
    return publications.published_by(ledger, pipeline, run)
