"""Three replays of the same offsets: the third one begins while the second, which has waited for the first, is publishing."""

import threading

from given_ledger.ledgers import PIPELINE, RUN, claim, plan, published, query, stage, start_streams, wait_for_a_lock
from servers.concurrency import beside
from tideline import flow
from tideline.domain.facts import PartitionFacts
from tideline.domain.states import BatchKind
from tideline.ledger import publishing
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written

FACTS = PartitionFacts(partition=0, log_start=0, end=10)


class Replay:
    """A replay that publishes in a session of its own, and pauses when it has deleted the replaced rows."""

    def __init__(self, ledger, url, stream):
        self.attempt = claim(ledger, plan(ledger, {stream: (0, 10)}, kind=BatchKind.REPLAY))
        stage(ledger, self.attempt)
        self.has_room, self.may_go_on = threading.Event(), threading.Event()
        self._url, self._stream = url, stream

    def begin(self):
        """Begin to publish; return a function that waits for the end."""
        return beside(self._publish)

    def _publish(self):
        with Ledger(self._url, actor="writer") as own:
            publishing.publish(
                own, self.attempt, self._insert, facts={self._stream: FACTS}, filtered_by_difference=False
            )

    def _insert(self, _):
        self.has_room.set()
        assert self.may_go_on.wait(180)
        return Written(n_written={self._stream: 10})


def test_a_replay_that_has_waited_for_another_one_holds_it_against_the_next(ledger, ledger_url):
    """After waiting for a lock a replay finds other owners than those that it has waited for.

    It must lock these too, or the next replay does not wait for it.
    """
    [stream] = start_streams(ledger, 1)
    loaded = published(ledger, {stream: (0, 10)})
    flow.advance(ledger, PIPELINE, RUN)
    first, second, third = (Replay(ledger, ledger_url, stream) for _ in range(3))

    first_ends = first.begin()
    assert first.has_room.wait(180)
    second_ends = second.begin()
    wait_for_a_lock(ledger_url)
    first.may_go_on.set()
    first_ends()
    assert second.has_room.wait(180)
    third_ends = third.begin()
    wait_for_a_lock(ledger_url)
    second.may_go_on.set()
    second_ends()
    third.may_go_on.set()
    third_ends()

    newest = third.attempt.batch_id
    assert query(ledger, "SELECT lower(offsets), upper(offsets), batch_id FROM tideline.coverage") == [(0, 10, newest)]
    given_up = [loaded, first.attempt.batch_id, second.attempt.batch_id]
    assert query(ledger, "SELECT batch_id FROM tideline.batch WHERE state = 'superseded' ORDER BY 1") == [
        (batch_id,) for batch_id in given_up
    ]
