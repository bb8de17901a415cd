"""Rejects are distributed to re-drives within the database: a client that fetched them would need memory for all of them."""

from given_ledger.ledgers import PIPELINE, RUN, claim, plan, publish, query, stage, start_streams
from tideline.domain.facts import PartitionFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind
from tideline.ledger import reservations
from tideline.ledger.reservations import Reservation


def rejected(ledger, streams, n):
    """Create a batch of which the first `n` records of each stream were rejected, alternately for two reasons."""
    attempt = claim(ledger, plan(ledger, dict.fromkeys(streams, (0, 2 * n))))
    stage(ledger, attempt)
    places = [(stream, offset) for stream in streams for offset in range(n)]
    with ledger.transaction():
        ledger.run(
            "stage_rejects",
            attempt=attempt.attempt,
            stream_ids=[stream for stream, _ in places],
            offsets=[offset for _, offset in places],
            steps=["decode"] * len(places),
            reasons=["even" if offset % 2 == 0 else "odd" for _, offset in places],
            **dict.fromkeys(("timestamps_ms", "keys", "values", "headers"), [None] * len(places)),
        )
    publish(ledger, attempt, written=dict.fromkeys(streams, n))


def parts(ledger, *, reason_like=None, size=250):
    with ledger.transaction():
        asked = {"pipeline": PIPELINE, "of_batch": None, "reason_like": reason_like, "size": size}
        return [tuple(row) for row in ledger.rows("list_rejects_to_redrive", **asked)]


def redrive(ledger, found, *, reason_like=None):
    """Plan the parts that were found, one batch for each."""
    batches = {}
    for incarnation, part, stream, start, end in found:
        facts = PartitionFacts(partition=0, log_start=start, end=end)
        piece = Reservation(offsets=OffsetRange(start, end), gaps_allowed=True, facts=facts)
        batches.setdefault((incarnation, part), {})[stream] = piece
    with ledger.transaction():
        planned = reservations.reserve(ledger, PIPELINE, RUN, BatchKind.REDRIVE, batches.values())
        reservations.take_rejects(ledger, planned, of_batch=None, reason_like=reason_like)
    taken = query(ledger, "SELECT batch_id, count(*) FROM tideline.redrive GROUP BY batch_id ORDER BY batch_id")
    return [number for batch_id, number in taken if batch_id in planned]


def test_many_rejects_are_cut_into_parts_of_which_only_the_ends_are_fetched(ledger):
    one, two = start_streams(ledger, 2)
    rejected(ledger, [one, two], 300)
    found = parts(ledger)
    assert found == [(1, 0, one, 0, 250), (1, 1, one, 250, 300), (1, 1, two, 0, 200), (1, 2, two, 200, 300)]
    assert redrive(ledger, found) == [250, 250, 100]
    assert parts(ledger) == []


def test_a_redrive_takes_only_what_was_requested_and_no_other_one_has(ledger):
    (stream,) = start_streams(ledger, 1)
    rejected(ledger, [stream], 20)
    assert redrive(ledger, parts(ledger, reason_like="odd", size=4), reason_like="odd") == [4, 4, 2]
    assert parts(ledger, size=100) == [(1, 0, stream, 0, 19)]
    assert redrive(ledger, parts(ledger)) == [10]
