"""The records of a stream are folded in the order of their offsets, whatever runs beside each other, dies, or is requested."""

import pytest

from given_ledger.ledgers import execute, query, stage
from given_ledger.planners import NAME, Brokerless, coverage, ranges_of
from given_ledger.states import folded, positions, publish, staged, states, with_state
from given_topics.topics import at
from servers.concurrency import beside
from tideline import flow
from tideline.domain.facts import PartitionFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, OneBatch, Ranges, Window
from tideline.domain.states import BatchState
from tideline.errors import FatalError, NeedsOperatorError, RetryableError, SupersededError
from tideline.ledger import attempts, heads, publishing, state
from tideline.ledger.attempts import Attempt, Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written

ANN = '["ann"]'
SILENT = "UPDATE tideline.attempt SET heartbeat_at = heartbeat_at - interval '2 minutes'"


@pytest.fixture
def ads(ledger):
    """A stateful pipeline over two partitions of ten records, in batches of ten."""
    found = Brokerless(ledger, 10, 10, batch_records=10)
    found.pipeline = with_state(found.pipeline)
    return found


def writer(name, number=1):
    return Writer(dag_id=NAME, run_id=name, task_id="write", try_number=number)


def claimed(ledger, batch_id, name, *, poll_seconds=0.01):
    attempt = flow.claim(ledger, batch_id, writer(name), pipeline=NAME, poll_seconds=poll_seconds)
    assert isinstance(attempt, Attempt)
    stage(ledger, attempt)
    return attempt


def published_without_state(ledger, attempt):
    """Publish a batch as a pipeline without a state does."""
    written = Written(n_written={piece.stream_id: len(piece.offsets) for piece in attempt.ranges})
    facts = {
        piece.stream_id: PartitionFacts(partition=piece.partition, log_start=0, end=100) for piece in attempt.ranges
    }
    publishing.publish(ledger, attempt, lambda _: written, facts=facts, filtered_by_difference=False)


def fold_all(ads, batch_ids):
    for batch_id in batch_ids:
        folded(ads.ledger, batch_id)
    heads.advance_published(ads.ledger, NAME)


def folded_up_to(ads):
    labels = "SELECT stream_id, partition FROM tideline.stream WHERE state <> 'retired'"
    found = positions(ads.ledger)
    return {partition: found[stream][0] for stream, partition in query(ads.ledger, labels) if stream in found}


# Runs beside each other ------------------------------------------------------------------------------------------


def test_every_run_gets_all_open_batches_in_the_order_of_their_offsets(ads):
    assert ads.plan("one") == [1, 2]
    assert query(ads.ledger, "SELECT DISTINCT stateful FROM tideline.batch") == [(True,)]
    flow.abandon(ads.ledger, 1, reason="no longer needed")
    ads.logs[0].append(10)
    again = ads.plan("two")
    assert again[-2:] == [2, max(again)], "what 1 had, in batches of one piece, then 2, then what is new"
    fold_all(ads, again)
    assert folded_up_to(ads) == {0: 20, 1: 10}


def test_a_batch_waits_for_the_one_before_it_that_another_run_writes(ads, ledger_url):
    first, second = ads.plan("one")
    ads.plan("two")
    mine = claimed(ads.ledger, first, "one")

    def work():
        with Ledger(ledger_url, actor="two") as own:
            found = claimed(own, second, "two")
            publish(own, found, staged(own, found))

    other = beside(work)
    publish(ads.ledger, mine, staged(ads.ledger, mine))
    other()
    order = "SELECT batch_id FROM tideline.event WHERE action IN ('claim', 'publish') ORDER BY event_id"
    assert query(ads.ledger, order) == [(first,), (first,), (second,), (second,)]


def test_a_batch_waits_for_one_that_was_just_planned_and_not_for_ever(ads):
    first, second = ads.plan("one")
    ads.plan("two")
    execute(ads.ledger, "SET session_replication_role = replica; UPDATE tideline.batch SET planned_at = now() - interval '59 seconds'"
            " WHERE batch_id = 1; SET session_replication_role = origin")  # fmt: skip
    with pytest.raises(
        RetryableError, match=rf"batch {first} is folded before it; that one is planned, and its run races one"
    ) as caught:
        claimed(ads.ledger, second, "two")
    assert f"tideline retry {first} --reason" in caught.value.next_step
    claimed(ads.ledger, first, "two")


def test_a_driver_that_lives_on_is_refused_and_the_batch_after_it_waits_for_its_successor(ads):
    """The orphan has read the state before its batch, as its successor has: only one of them folds."""
    first, second = ads.plan("one")
    ads.plan("two")
    orphan = claimed(ads.ledger, first, "one")
    found = staged(ads.ledger, orphan)
    execute(ads.ledger, SILENT)
    with pytest.raises(RetryableError, match=f"batch {first} is folded before it; that one is writing"):
        claimed(ads.ledger, second, "two")
    successor = claimed(ads.ledger, first, "two")
    publish(ads.ledger, successor, staged(ads.ledger, successor))
    with pytest.raises(SupersededError):
        publish(ads.ledger, orphan, found)
    folded(ads.ledger, second)
    assert folded_up_to(ads) == {0: 10, 1: 10}
    assert query(ads.ledger, "SELECT batch_id FROM tideline.state_batch ORDER BY seq") == [(first,), (second,)]


def test_a_failed_batch_holds_back_those_after_it(ads):
    first, second = ads.plan("one")
    assert (set(ranges_of(ads.ledger, first)), set(ranges_of(ads.ledger, second))) == ({0, 1}, {0, 1})
    attempts.fail(ads.ledger, claimed(ads.ledger, first, "one"), "a problem")
    execute(ads.ledger, "SET session_replication_role = replica; UPDATE tideline.attempt SET ended_at = now() - interval '2 minutes';"
            " SET session_replication_role = origin")  # fmt: skip
    with pytest.raises(RetryableError, match="that one is failed"):
        claimed(ads.ledger, second, "one")


def test_what_was_abandoned_is_planned_again_before_what_comes_after_it(ads):
    first, second = ads.plan("one")
    flow.abandon(ads.ledger, first, reason="no longer needed")
    with pytest.raises(RetryableError, match="no open batch has the offsets in between") as caught:
        claimed(ads.ledger, second, "one")
    assert f"start a run of DAG {NAME}" in caught.value.next_step
    again = ads.plan("two")
    assert again[-1] == second
    fold_all(ads, again)
    assert folded_up_to(ads) == {0: 10, 1: 10}


def test_no_two_batches_ever_wait_for_each_other(ledger):
    """What one batch has left before another one, and what is new after it, must not be in one batch."""
    ads = Brokerless(ledger, 10, 0, batch_records=10)
    ads.pipeline = with_state(ads.pipeline)
    (first,) = ads.plan("one")
    ads.logs[0].append(5)
    ads.logs[1].append(5)
    ads.plan("two")
    flow.abandon(ledger, first, reason="no longer needed")
    ads.logs[1].append(5)
    planned = ads.plan("three")
    fold_all(ads, planned)
    assert folded_up_to(ads) == {0: 15, 1: 10}


def test_a_stateless_pipeline_claims_in_any_order(ledger):
    ads = Brokerless(ledger, 10, 10, batch_records=10)
    _, second = ads.plan("one")
    assert isinstance(flow.claim(ledger, second, writer("one"), pipeline=NAME), Attempt)


# Requests --------------------------------------------------------------------------------------------------------


def piece(start, end, partition=0):
    return NamedRange("ads", partition, OffsetRange(start, end))


@pytest.fixture
def half(ads):
    """Fold what there is, but for a skipped hole at the end of the first partition."""
    flow.skip(ads.ledger, ads.broker, ads.pipeline, piece(5, 8), reason="poison")
    fold_all(ads, ads.plan("one"))
    return ads


@pytest.mark.parametrize(
    "request_",
    [
        Ranges(ranges=(piece(5, 8),)),
        Ranges(ranges=(piece(0, 3),), replace=True),
        OneBatch(batch_id=1, replace=True),
        KeptRejects(),
        Window(start=at(0), end=at(60), replace=True),
    ],
    ids=["backfill", "replay", "replay of a batch", "re-drive", "window"],
)
def test_past_offsets_are_refused_and_rewind_is_the_next_command(half, request_):
    before = query(half.ledger, "SELECT count(*) FROM tideline.batch")
    with pytest.raises(FatalError, match="the pipeline has a state") as caught:
        half.plan("again", request_)
    assert f"tideline rewind {NAME} --to-batch N" in caught.value.next_step
    assert caught.value.entry == "state-is-folded-in-order"
    assert query(half.ledger, "SELECT count(*) FROM tideline.batch") == before


def test_ranges_and_windows_that_ask_for_nothing_past_are_no_mistake(half):
    assert half.plan("again", Ranges(ranges=(piece(0, 3),))) == []
    half.logs[0].append(5)
    batch_ids = half.plan("ahead", Window(start=at(10), end=at(13)))
    fold_all(half, batch_ids)
    assert folded_up_to(half) == {0: 13, 1: 10}


def test_skipped_offsets_are_a_hole_in_the_state_too(half):
    assert folded_up_to(half) == {0: 10, 1: 10}
    assert [part for part in coverage(half.ledger) if part[2] == "skipped"] == [(5, 8, "skipped")]


def test_lost_offsets_are_a_hole_in_the_state_too(half):
    half.logs[0].append(10)
    half.logs[0].delete_before(14)
    flow.accept_loss(half.ledger, half.broker, half.pipeline, "ads", None, reason="gone")
    (batch_id,) = half.plan("two")
    assert [found.has_gap for found in state.positions(half.ledger, batch_id).values()] == [True]
    fold_all(half, [batch_id])
    assert folded_up_to(half) == {0: 20, 1: 10}


def test_a_topic_that_was_created_again_goes_on_with_the_keys_of_its_partitions(half):
    half.logs[0].append(2)
    (last,) = half.plan("last")
    [of_last] = ranges_of(half.ledger, last)
    streams = dict(query(half.ledger, "SELECT partition, stream_id FROM tideline.stream"))
    folded(half.ledger, last, [(1, ANN, streams[of_last], {"clicks": 7}, None, 11)])
    heads.advance_published(half.ledger, NAME)
    half.cluster.create("ads", 4, 4)
    flow.adopt_topic(half.ledger, half.broker, half.pipeline, "ads", reason="created again")
    (batch_id,) = half.plan("two")
    found = state.positions(half.ledger, batch_id)
    assert {(one.next_offset, one.version, one.has_gap) for one in found.values()} == {(0, 0, True)}
    fold_all(half, [batch_id])
    assert folded_up_to(half) == {0: 4, 1: 4}
    assert states(half.ledger, NAME)[ANN] == ({"clicks": 7}, streams[of_last], 11, last)


def test_a_state_does_not_begin_behind_records_that_were_loaded_without_it(ledger):
    ads = Brokerless(ledger, 10, 0, batch_records=10)
    (first,) = ads.plan("one")
    attempt = claimed(ledger, first, "one")
    published_without_state(ledger, attempt)
    ads.pipeline = with_state(ads.pipeline)
    ads.logs[0].append(10)
    ads.logs[1].append(10)
    with pytest.raises(
        NeedsOperatorError, match=r"loaded without being folded into its state.*: ads/0 \[0, 10\)\n"
    ) as caught:
        ads.plan("two")
    assert "a pipeline of another name" in caught.value.next_step
    assert query(ledger, "SELECT count(*) FROM tideline.batch") == [(1,)]


def test_a_state_that_was_taken_away_for_a_while_does_not_go_on(ads):
    fold_all(ads, ads.plan("one"))
    stateful, ads.pipeline = ads.pipeline, Brokerless(ads.ledger, 10, 10, batch_records=10).pipeline
    ads.logs[0].append(10)
    (batch_id,) = ads.plan("two")
    published_without_state(ads.ledger, claimed(ads.ledger, batch_id, "two"))
    heads.advance_published(ads.ledger, NAME)
    ads.pipeline = stateful
    ads.logs[0].append(10)
    with pytest.raises(NeedsOperatorError, match=r": ads/0 \[10, 20\)\n"):
        ads.plan("three")


def test_the_retry_of_a_folded_batch_names_the_rewind(half):
    with pytest.raises(FatalError, match="there is nothing left to write") as caught:
        flow.retry(half.ledger, 1, reason="again")
    assert f"tideline rewind {NAME} --to-batch N" in caught.value.next_step


def test_a_batch_that_is_open_can_be_retried(ads):
    first, second = ads.plan("one")
    assert ads.plan("two", OneBatch(batch_id=second)) == [second]
    assert (
        query(ads.ledger, "SELECT state::text FROM tideline.batch WHERE batch_id = %s", first)[0][0]
        == BatchState.PLANNED
    )
