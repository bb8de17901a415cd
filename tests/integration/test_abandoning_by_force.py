"""A batch can be taken from a driver that hangs but still sends heartbeats: it is fenced first, and can never publish."""

import pytest

from given_ledger.ledgers import claim, plan, publish, query, stage, start_streams, state, wait_for_a_lock
from servers.concurrency import beside
from tideline import flow
from tideline.errors import FatalError, SupersededError
from tideline.ledger import abandoning, attempts
from tideline.ledger.connection import Ledger

WHY = "its driver hangs, see #93"


@pytest.fixture
def hanging(ledger):
    """Start an attempt that sends heartbeats and could publish."""
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}))
    stage(ledger, attempt)
    assert attempts.beat(ledger, attempt.attempt)
    return attempt


def abandon(ledger_url, attempt):
    with Ledger(ledger_url, actor="ada") as own:
        flow.abandon(own, attempt.batch_id, reason=WHY, force=True)


def test_without_force_a_batch_that_is_being_written_stays_and_the_error_names_force(ledger, hanging):
    with pytest.raises(FatalError, match="is being written by write try 1 of impressions manual__1") as refused:
        flow.abandon(ledger, hanging.batch_id, reason=WHY)
    assert f"tideline abandon {hanging.batch_id} --force --reason" in refused.value.next_step
    assert state(ledger, hanging.batch_id) == ("writing", 1)
    publish(ledger, hanging)


def test_an_attempt_that_was_forced_out_can_never_publish_and_its_offsets_are_free(ledger, ledger_url, hanging):
    abandon(ledger_url, hanging)
    assert state(ledger, hanging.batch_id) == ("abandoned", 2)
    with pytest.raises(SupersededError, match="found state abandoned, held by attempt 2"):
        publish(ledger, hanging)
    again = claim(ledger, plan(ledger, {hanging.ranges[0].stream_id: (0, 10)}))
    stage(ledger, again)
    publish(ledger, again)


def test_a_driver_that_was_forced_out_hears_of_it_at_its_next_beat(ledger, ledger_url, hanging):
    abandon(ledger_url, hanging)
    assert not attempts.beat(ledger, hanging.attempt)


def test_the_history_says_who_forced_a_batch_out_and_why(ledger, ledger_url, hanging):
    abandon(ledger_url, hanging)
    history = "SELECT actor, action, from_state, to_state, detail ->> 'reason' FROM tideline.event WHERE actor = 'ada' ORDER BY event_id"
    assert query(ledger, history) == [
        ("ada", "claim", "writing", "writing", WHY),
        ("ada", "fail", "writing", "failed", WHY),
        ("ada", "abandon", "failed", "abandoned", WHY),
    ]
    tries = "SELECT fence, run_id, task_id, outcome::text, problem FROM tideline.attempt ORDER BY fence"
    assert query(ledger, tries) == [
        (1, "manual__1", "write", "superseded", "taken over by a newer attempt"),
        (2, "ada", "abandon --force", "failed", "abandoned by force by ada"),
    ]


def test_forcing_a_batch_that_is_being_published_waits_and_is_refused(ledger, ledger_url, hanging):
    """The lock of the batch decides: here publishing came first."""
    with ledger.transaction():
        ledger.rows("lock_batch", batch_id=hanging.batch_id)
        forced = beside(lambda: abandon(ledger_url, hanging))
        wait_for_a_lock(ledger_url)
        publish(ledger, hanging)
    with pytest.raises(FatalError, match="is published: what is in the output cannot be abandoned"):
        forced()
    assert state(ledger, hanging.batch_id) == ("published", 1)


def test_an_attempt_that_publishes_while_it_is_forced_out_waits_and_is_refused(ledger, ledger_url, hanging):
    """The opposite order."""
    with Ledger(ledger_url, actor="ada") as ada:
        with ada.transaction():
            ada.rows("lock_batch", batch_id=hanging.batch_id)
            publishing = beside(lambda: publish(ledger, hanging))
            wait_for_a_lock(ledger_url)
            abandoning.abandon(ada, hanging.batch_id, force=True)
        with pytest.raises(SupersededError):
            publishing()
    assert query(ledger, "SELECT count(*) FROM tideline.coverage") == [(0,)]
    assert state(ledger, hanging.batch_id) == ("abandoned", 2)
