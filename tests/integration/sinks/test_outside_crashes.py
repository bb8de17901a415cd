"""Whenever an attempt at an outside sink dies, its batch is visible once, with the counts of the attempt that committed it.

One test for each line of the crash table.
"""

import pytest

from given_ledger.ledgers import query, stage, state
from loads.outside_log import KilledError, all_rows, killed, unknown
from tideline.errors import RetryableError, SupersededError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.sinks.sink import OutcomeUnknownError


def test_a_batch_is_visible_once_and_published_with_its_counts(scene):
    batch = scene.plan()
    scene.load(batch, 3)
    assert scene.log.rows == {batch: all_rows(scene, 3)}
    assert state(scene.ledger, batch) == ("advanced", 1)
    assert (scene.counts(batch), scene.written_by(batch)) == ((10, 9, 1), 1)
    assert (scene.log.fenced, scene.log.looked) == ([], [batch]), "a first attempt has nothing to fence, and looks once"
    actions = "SELECT action FROM tideline.event WHERE batch_id = %s ORDER BY event_id"
    assert [row[0] for row in query(scene.ledger, actions, batch)] == [
        "plan", "claim", "intend", "settle", "publish", "advance",
    ]  # fmt: skip


def test_an_attempt_that_dies_before_its_intent_leaves_nothing_and_the_next_one_stages_anew(scene):
    batch = scene.plan()
    scene.stage(scene.claim(batch), 1, 2)
    retry = scene.claim(batch)
    assert scene.recover(retry) is None
    scene.publish(retry, scene.output(retry, 5))
    assert (scene.log.rows[batch], scene.written_by(batch)) == (all_rows(scene, 5), 2)
    assert scene.counts(batch) == (10, 9, 1)


def test_an_attempt_that_dies_between_intent_and_commit_leaves_nothing_and_can_never_commit(scene):
    batch = scene.plan()
    first = scene.claim(batch)
    with pytest.raises(KilledError):
        scene.publish(first, scene.output(first, 1, before=killed))
    retry = scene.claim(batch)
    assert scene.recover(retry) is None
    with pytest.raises(SupersededError):
        scene.log.commit(first.batch, first.receipt, [(1, 1)])
    scene.publish(retry, scene.output(retry, 5))
    assert (scene.log.rows[batch], scene.counts(batch)) == (all_rows(scene, 5), (10, 9, 1))


def test_a_commit_whose_answer_was_lost_is_found_by_the_same_attempt(scene):
    batch = scene.plan()
    first = scene.claim(batch)
    scene.publish(first, scene.output(first, after=unknown))
    assert (state(scene.ledger, batch)[0], scene.written_by(batch)) == ("published", 1)


def test_a_commit_that_may_still_be_in_flight_is_retryable_and_the_next_attempt_decides_it(scene):
    batch = scene.plan()
    first = scene.claim(batch)
    with pytest.raises(OutcomeUnknownError):
        scene.publish(first, scene.output(first, before=unknown))
    retry = scene.claim(batch)
    assert scene.recover(retry) is None
    with pytest.raises(SupersededError):  # it lands too late
        scene.log.commit(first.batch, first.receipt, [])
    scene.publish(retry, scene.output(retry))
    assert scene.log.rows == {batch: all_rows(scene)}


def test_what_was_committed_before_a_crash_is_settled_by_the_next_claim_with_the_counts_of_the_dead(scene):
    batch = scene.plan()
    first = scene.claim(batch)
    with pytest.raises(KilledError):
        scene.publish(first, scene.output(first, 4, 7, after=killed))
    retry = scene.claim(batch)
    stage(scene.ledger, retry)
    settled = scene.recover(retry)
    assert [(count.n_read, count.n_written, count.n_rejected) for count in settled] == [(10, 8, 2)]
    assert (state(scene.ledger, batch), scene.written_by(batch)) == (("published", 2), 1)
    assert scene.log.rows == {batch: all_rows(scene, 4, 7)}
    rejects = "SELECT kafka_offset::int, attempt_id = %s FROM tideline.reject ORDER BY 1"
    assert query(scene.ledger, rejects, first.attempt_id) == [(4, True), (7, True)]


def test_what_is_committed_settles_even_when_kafka_has_lost_the_offsets(scene):
    batch = scene.plan()
    first = scene.claim(batch)
    with pytest.raises(KilledError):
        scene.publish(first, scene.output(first, after=killed))
    scene.ads.logs[0].delete_before(8)
    retry = scene.claim(batch)
    assert scene.recover(retry) is not None
    assert state(scene.ledger, batch)[0] == "published"


def test_an_orphan_that_commits_after_the_fence_of_the_retry_is_refused(scene):
    batch = scene.plan()
    orphan = scene.claim(batch)
    taken: list[Attempt] = []

    def taken_over() -> None:
        taken.append(scene.claim(batch))
        assert scene.recover(taken[0]) is None

    with Ledger(scene.url, actor="orphan") as own, pytest.raises(SupersededError):
        scene.publish(orphan, scene.output(orphan, 1, before=taken_over), own)
    scene.publish(taken[0], scene.output(taken[0], 5))
    assert (scene.log.rows[batch], scene.counts(batch)) == (all_rows(scene, 5), (10, 9, 1))


def test_an_orphan_that_commits_before_the_fence_of_the_retry_is_settled_with_its_counts(scene):
    batch = scene.plan()
    orphan = scene.claim(batch)
    taken: list[Attempt] = []

    def taken_over() -> None:
        taken.append(scene.claim(batch))

    with Ledger(scene.url, actor="orphan") as own, pytest.raises(SupersededError):
        scene.publish(orphan, scene.output(orphan, 1, before=taken_over), own)
    assert state(scene.ledger, batch)[0] == "writing", "the orphan does not hold the batch, so it does not settle"
    assert scene.recover(taken[0]) is not None
    assert (scene.written_by(batch), scene.counts(batch)) == (1, (10, 9, 1))


def test_a_batch_that_is_given_up_after_its_fence_can_be_loaded_when_the_decision_was_rolled_back(scene):
    batch = scene.plan()
    first = scene.claim(batch)
    with pytest.raises(KilledError):
        scene.publish(first, scene.output(first, before=killed))
    assert scene.log.fence(scene.known(batch), 2) is None  # and the command dies
    retry = scene.claim(batch)
    assert scene.recover(retry) is None
    scene.publish(retry, scene.output(retry))
    assert scene.log.rows == {batch: all_rows(scene)}


def test_an_attempt_fenced_by_a_decision_that_was_not_taken_is_run_again(scene):
    batch = scene.plan()
    first = scene.claim(batch)
    output = scene.output(first, before=lambda: scene.log.fence(scene.known(batch), 2))
    with pytest.raises(RetryableError, match="no newer attempt has the batch"):
        scene.publish(first, output)
    scene.load(batch)
    assert scene.log.rows == {batch: all_rows(scene)}


def test_a_sink_that_does_not_answer_is_retryable(scene):
    batch = scene.plan()
    scene.claim(batch)
    retry = scene.claim(batch)
    scene.log.answers = False
    with pytest.raises(RetryableError):
        scene.recover(retry)
