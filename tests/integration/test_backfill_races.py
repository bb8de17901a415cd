"""Two concurrent backfills of one hole: the second one waits for the first, and then gets what the first has left of the hole."""

import threading

from given_ledger.ledgers import claim, plan, query, stage, start_streams, wait_for_a_lock
from servers.concurrency import beside
from tideline.domain.facts import PartitionFacts
from tideline.domain.states import BatchKind
from tideline.ledger import publishing
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written


def test_two_backfills_of_one_hole_at_once_both_publish_and_leave_the_rest_of_it(ledger, ledger_url):
    (stream,) = start_streams(ledger, 1)
    with ledger.transaction():
        hole = {"stream_id": stream, "start": 0, "end": 10, "hole": "skipped", "reason": "late", "decided_by": "ada"}
        ledger.run("record_hole", **hole)
    first, second = (
        claim(ledger, plan(ledger, {stream: piece}, kind=BatchKind.BACKFILL)) for piece in ((0, 3), (6, 9))
    )
    has_room, may_go_on = threading.Event(), threading.Event()

    def publish(attempt, insert):
        with Ledger(ledger_url, actor="writer") as own:
            facts = {stream: PartitionFacts(partition=0, log_start=0, end=10)}
            publishing.publish(own, attempt, insert, facts=facts, filtered_by_difference=False)

    def stand_still(_):
        has_room.set()
        assert may_go_on.wait(180)
        return Written(n_written={stream: 3})

    for attempt in (first, second):
        stage(ledger, attempt)
    first_ends = beside(lambda: publish(first, stand_still))
    assert has_room.wait(180)
    second_ends = beside(lambda: publish(second, lambda _: Written(n_written={stream: 3})))
    wait_for_a_lock(ledger_url)
    may_go_on.set()
    first_ends()
    second_ends()
    assert query(
        ledger, "SELECT lower(offsets), upper(offsets), batch_id, hole::text FROM tideline.coverage ORDER BY 1"
    ) == [
        (0, 3, first.batch_id, None),
        (3, 6, None, "skipped"),
        (6, 9, second.batch_id, None),
        (9, 10, None, "skipped"),
    ]
