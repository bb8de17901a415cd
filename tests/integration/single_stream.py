"""Holes, replays and backfills over offsets of one stream, in the ledger only."""

from ledgers import PIPELINE, RUN, claim, published, stage, start_streams
from tideline import flow
from tideline.domain.facts import PartitionFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind
from tideline.ledger import reservations
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Reservation, Run

HOLE = "INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by) VALUES (%s, %s, 'skipped', 'poison', 'ada')"


def replay(ledger: Ledger, stream: int, start: int, end: int, kind: BatchKind = BatchKind.REPLAY) -> Attempt:
    """Claim and stage a batch over offsets of one stream."""
    wanted = Reservation(
        offsets=OffsetRange(start, end), gaps_allowed=False, facts=PartitionFacts(partition=0, log_start=0, end=end)
    )
    with ledger.transaction():
        [batch_id] = reservations.reserve(
            ledger, PIPELINE, Run(dag_id="d", run_id=f"{kind} {start}"), kind, [{stream: wanted}]
        )
    attempt = claim(ledger, batch_id)
    stage(ledger, attempt)
    return attempt


def loaded(ledger: Ledger, start: int = 0, end: int = 10) -> tuple[int, int]:
    """Start a stream with one advanced batch."""
    (stream,) = start_streams(ledger, 1, start=start)
    batch_id = published(ledger, {stream: (start, end)})
    flow.advance(ledger, PIPELINE, RUN)
    return stream, batch_id
