"""Who may write a batch and who may publish it: any attempt may try, only the newest one can, and only once."""

import threading

import pytest

from given_ledger.ledgers import PIPELINE, WRITER, claim, events, plan, publish, query, stage, start_streams, state
from servers.concurrency import together
from tideline import flow
from tideline.domain.states import BatchState
from tideline.errors import FatalError, SupersededError
from tideline.ledger import attempts, heads
from tideline.ledger.attempts import Held, Writer
from tideline.ledger.connection import Ledger

RETRY = Writer(dag_id="impressions", run_id="manual__1", task_id="write", try_number=2)
OTHER_RUN = Writer(dag_id="impressions", run_id="manual__2", task_id="write", try_number=1)


@pytest.fixture
def batch_id(ledger):
    """Plan a batch of ten offsets."""
    (stream,) = start_streams(ledger, 1)
    return plan(ledger, {stream: (0, 10)})


def silence(ledger, seconds):
    """Set the last heartbeat of every attempt back by so many seconds."""
    query(ledger, "UPDATE tideline.attempt SET heartbeat_at = heartbeat_at - make_interval(secs => %s)", seconds)


# publish --------------------------------------------------------------------------------------------------------------


def test_a_stale_attempt_cannot_publish_before_the_new_one(ledger, batch_id):
    stale, newest = claim(ledger, batch_id), claim(ledger, batch_id, writer=RETRY)
    stage(ledger, stale)
    with pytest.raises(SupersededError, match="held by attempt 2"):
        publish(ledger, stale)
    assert state(ledger, batch_id) == ("writing", 2)
    stage(ledger, newest)
    publish(ledger, newest)


def test_a_stale_attempt_cannot_publish_after_the_new_one(ledger, batch_id):
    stale, newest = claim(ledger, batch_id), claim(ledger, batch_id, writer=RETRY)
    stage(ledger, stale)
    stage(ledger, newest)
    publish(ledger, newest)
    before = events(ledger, batch_id)
    with pytest.raises(SupersededError, match="found state published, held by attempt 2"):
        publish(ledger, stale)
    assert events(ledger, batch_id) == [*before, ("test", "refuse", None, None)]
    assert query(ledger, "SELECT count(*) FROM tideline.coverage") == [(1,)]


def test_an_attempt_cannot_publish_twice(ledger, batch_id):
    attempt = claim(ledger, batch_id)
    stage(ledger, attempt)
    publish(ledger, attempt)
    with pytest.raises(SupersededError, match="found state published"):
        publish(ledger, attempt)


def test_of_two_publishing_at_once_only_the_newest_does(ledger, ledger_url, batch_id):
    stale, newest = claim(ledger, batch_id), claim(ledger, batch_id, writer=RETRY)
    stage(ledger, stale)
    stage(ledger, newest)

    def outcome(attempt):
        with Ledger(ledger_url, actor="thread") as own:
            try:
                publish(own, attempt)
            except SupersededError:
                return "refused"
            return "published"

    assert together(lambda: outcome(stale), lambda: outcome(newest)) == ["refused", "published"]
    assert [action for _, action, *_ in events(ledger, batch_id)].count("publish") == 1


def test_a_refusal_leaves_an_event_that_names_the_attempt(ledger, batch_id):
    stale = claim(ledger, batch_id)
    claim(ledger, batch_id, writer=RETRY)
    with pytest.raises(SupersededError):
        publish(ledger, stale)
    [(actor, attempt, detail)] = query(
        ledger, "SELECT actor, attempt, detail FROM tideline.event WHERE action = 'refuse'"
    )
    assert (actor, attempt, detail["fence"]) == ("test", stale.attempt, 1)
    assert "held by attempt 2" in detail["found"]


# claim ----------------------------------------------------------------------------------------------------------------


def test_the_same_task_takes_over_at_once(ledger, batch_id):
    claim(ledger, batch_id)
    assert claim(ledger, batch_id, writer=RETRY, stale_after_seconds=3600).fence == 2
    assert query(ledger, "SELECT fence, outcome::text FROM tideline.attempt ORDER BY fence") == [
        (1, "superseded"),
        (2, None),
    ]


def test_another_run_takes_over_only_after_silence(ledger, batch_id):
    holder = claim(ledger, batch_id)
    held = attempts.claim(ledger, batch_id, OTHER_RUN, stale_after_seconds=60)
    assert isinstance(held, Held)
    assert "manual__1 write try 1" in held.holder
    silence(ledger, 61)
    assert attempts.beat(ledger, holder.attempt)
    assert isinstance(attempts.claim(ledger, batch_id, OTHER_RUN, stale_after_seconds=60), Held)
    silence(ledger, 61)
    assert claim(ledger, batch_id, writer=OTHER_RUN, stale_after_seconds=60).fence == 2


def test_another_run_takes_over_at_once_what_has_failed(ledger, batch_id):
    attempts.fail(ledger, claim(ledger, batch_id), "the transform divides by zero")
    assert claim(ledger, batch_id, writer=OTHER_RUN, stale_after_seconds=3600).fence == 2


def test_waiting_for_another_run_ends_when_it_fails(ledger, ledger_url, batch_id):
    holder = claim(ledger, batch_id)
    found = []

    def wait():
        with Ledger(ledger_url, actor="waiting") as own:
            found.append(flow.claim(own, batch_id, OTHER_RUN, poll_seconds=0.01))

    thread = threading.Thread(target=wait)
    thread.start()
    attempts.fail(ledger, holder, "lost")
    thread.join(180)
    assert [attempt.fence for attempt in found] == [2]


def test_waiting_for_another_run_ends_when_it_publishes(ledger, ledger_url, batch_id):
    holder = claim(ledger, batch_id)
    stage(ledger, holder)
    found = []

    def wait():
        with Ledger(ledger_url, actor="waiting") as own:
            found.append(flow.claim(own, batch_id, OTHER_RUN, poll_seconds=0.01))

    thread = threading.Thread(target=wait)
    thread.start()
    publish(ledger, holder)
    thread.join(180)
    assert found == [BatchState.PUBLISHED]


def test_a_claim_passes_over_what_needs_no_writing(ledger, batch_id):
    stage(ledger, attempt := claim(ledger, batch_id))
    publish(ledger, attempt)
    assert attempts.claim(ledger, batch_id, RETRY, stale_after_seconds=0) is BatchState.PUBLISHED
    heads.advance_published(ledger, PIPELINE)
    assert attempts.claim(ledger, batch_id, RETRY, stale_after_seconds=0) is BatchState.ADVANCED
    assert state(ledger, batch_id) == ("advanced", 1)


def test_claims_at_once_get_fences_of_their_own(ledger, ledger_url, batch_id):
    def try_number(number):
        with Ledger(ledger_url, actor="thread") as own:
            return claim(own, batch_id, writer=WRITER).fence

    assert sorted(together(*(lambda n=n: try_number(n) for n in range(6)))) == [1, 2, 3, 4, 5, 6]


def test_a_claim_of_no_batch_says_so(ledger):
    with pytest.raises(FatalError, match="batch 77 is not in the ledger"):
        attempts.claim(ledger, 77, WRITER, stale_after_seconds=60)


# beat and fail --------------------------------------------------------------------------------------------------------


def test_a_heart_beats_until_a_newer_attempt_claims_the_batch(ledger, batch_id):
    first = claim(ledger, batch_id)
    assert attempts.beat(ledger, first.attempt)
    second = claim(ledger, batch_id, writer=RETRY)
    assert not attempts.beat(ledger, first.attempt)
    stage(ledger, second)
    publish(ledger, second)
    assert attempts.beat(ledger, second.attempt), "its own publish is no takeover"


def test_a_beat_says_how_many_records_the_tasks_have_read(ledger, batch_id):
    """An attempt that hangs sends heartbeats as well: the time of the last progress shows the difference."""
    progress = "SELECT n_read, progressed_at FROM tideline.attempt"
    attempt = claim(ledger, batch_id)
    attempts.beat(ledger, attempt.attempt)
    assert query(ledger, progress) == [(0, None)]
    stage(ledger, attempt)
    attempts.beat(ledger, attempt.attempt)
    [(n_read, progressed_at)] = query(ledger, progress)
    assert (n_read, progressed_at is None) == (10, False)
    attempts.beat(ledger, attempt.attempt)
    publish(ledger, attempt)  # publishing deletes the counts from which the number was computed
    attempts.beat(ledger, attempt.attempt)
    assert query(ledger, progress) == [(10, progressed_at)]


def test_a_superseded_attempt_that_fails_changes_nothing(ledger, batch_id):
    stale, newest = claim(ledger, batch_id), claim(ledger, batch_id, writer=RETRY)
    before = events(ledger, batch_id), query(ledger, "SELECT * FROM tideline.attempt ORDER BY fence")
    attempts.fail(ledger, stale, "late")
    assert (events(ledger, batch_id), query(ledger, "SELECT * FROM tideline.attempt ORDER BY fence")) == before
    stage(ledger, newest)
    publish(ledger, newest)


def test_an_error_fails_the_attempt_and_goes_on_as_it_was(ledger, batch_id):
    with pytest.raises(ZeroDivisionError), attempts.failing(ledger, claim(ledger, batch_id)):
        raise ZeroDivisionError("of record \0")  # an error's text may quote a bad record
    assert query(ledger, "SELECT outcome::text, problem FROM tideline.attempt") == [("failed", "of record \\0")]
    assert state(ledger, batch_id) == ("failed", 1)


def test_an_attempt_whose_session_was_cut_fails_all_the_same(ledger, ledger_url, batch_id):
    attempt = claim(ledger, batch_id)
    with Ledger(ledger_url, actor="admin") as admin:
        query(admin, "SELECT pg_terminate_backend(%s, 5000)", ledger.connection.info.backend_pid)
    with pytest.raises(ZeroDivisionError), attempts.failing(ledger, attempt):
        raise ZeroDivisionError
    assert state(ledger, batch_id) == ("failed", 1)


# history --------------------------------------------------------------------------------------------------------------


def test_each_change_of_state_has_one_event_that_names_who_did_it(ledger_url):
    with Ledger(ledger_url, actor="planner") as ledger:
        (stream,) = start_streams(ledger, 1)
        batch_id = plan(ledger, {stream: (0, 10)})
    with Ledger(ledger_url, actor="try 1; 'quoted' %s -c x=y") as ledger:
        attempts.fail(ledger, claim(ledger, batch_id), "lost")
    with Ledger(ledger_url, actor="try 2") as ledger:
        claim(ledger, batch_id)
    with Ledger(ledger_url, actor="try 3") as ledger:
        stage(ledger, attempt := claim(ledger, batch_id, writer=RETRY))
        publish(ledger, attempt)
    with Ledger(ledger_url, actor="advancer") as ledger:
        heads.advance_published(ledger, PIPELINE)
        assert events(ledger, batch_id) == [
            ("planner", "plan", None, "planned"),
            ("try 1; 'quoted' %s -c x=y", "claim", "planned", "writing"),
            ("try 1; 'quoted' %s -c x=y", "fail", "writing", "failed"),
            ("try 2", "claim", "failed", "writing"),
            ("try 3", "claim", "writing", "writing"),
            ("try 3", "publish", "writing", "published"),
            ("advancer", "advance", "published", "advanced"),
        ]
        assert query(ledger, "SELECT actor, detail FROM tideline.event WHERE action = 'move head'") == [
            ("advancer", {"from": 0, "to": 10})
        ]
