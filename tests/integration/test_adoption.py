"""Which open batches a run for new records adopts: those that a head has to pass. Batches that an operator has requested never delay new records."""

import pytest

from given_ledger import ledgers
from given_ledger.ledgers import query, state
from given_ledger.planners import Brokerless, coverage, finish, load, next_offsets, ranges_of
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, OneBatch, Ranges
from tideline.ledger import attempts

WHY = "prices were in cents"


def these(start, end, *, replace=False):
    return Ranges(ranges=(NamedRange("ads", 0, OffsetRange(start, end)),), replace=replace)


def fail(ledger, batch_id):
    attempts.fail(ledger, ledgers.claim(ledger, batch_id), "a column is too narrow")


@pytest.fixture
def ads(ledger):
    """Load ten offsets."""
    ads = Brokerless(ledger, 10)
    load(ledger, ads.plan("first"))
    return ads


@pytest.mark.parametrize("tried", [True, False], ids=["failed", "planned"])
def test_the_replay_of_an_operator_delays_no_new_records(ledger, ads, tried):
    [replay] = ads.plan("replay", these(2, 5, replace=True))
    if tried:
        fail(ledger, replay)
    ads.logs[0].append(4)
    given = ads.ask("hourly")
    assert [ranges_of(ledger, batch_id) for batch_id in given.batch_ids] == [{0: (10, 14)}]
    kept = "failed" if tried else "planned"
    assert given.notes == [
        (
            f"batch {replay} (replay, {kept}) is left to races replay, which requested it; if that run has ended: "
            f"tideline retry {replay} --reason ..., or tideline abandon {replay} --reason ..."
        )
    ]
    load(ledger, given.batch_ids)
    ads.advance("hourly")
    assert (next_offsets(ledger), state(ledger, replay)[0]) == ({0: 14}, kept)


def test_what_heals_a_replay_is_its_own_run_or_one_that_asks_for_it(ledger, ads):
    [replay] = ads.plan("replay", these(2, 5, replace=True))
    fail(ledger, replay)
    assert ads.plan("replay", these(2, 5, replace=True)) == [replay]  # the run is cleared
    assert ads.plan("retry", OneBatch(batch_id=replay)) == [replay]  # what `tideline retry` starts
    load(ledger, [replay])
    ads.advance("retry")
    assert [row[2] for row in coverage(ledger)] == [1, replay, 1]
    [other] = ads.plan("other", these(2, 5, replace=True))
    flow.abandon(ledger, other, reason="no longer wanted")
    assert ads.ask("hourly").notes == []


def test_a_re_drive_is_left_to_the_run_that_requested_it(ledger, ads):
    ads.logs[0].append(4)
    [batch_id] = ads.plan("hourly")
    attempt = ledgers.claim(ledger, batch_id)
    ledgers.stage(ledger, attempt)
    [stream] = [piece.stream_id for piece in attempt.ranges]
    query(
        ledger,
        "INSERT INTO tideline.staged_reject (attempt_id, stream_id, kafka_offset, step, reason, kafka_timestamp_ms, headers)"
        " SELECT %s, %s, kafka_offset, 'decode', 'no JSON', 0, '[]' FROM generate_series(11, 12) AS kafka_offset",
        attempt.attempt_id,
        stream,
    )
    ledgers.publish(ledger, attempt, written={stream: 2})
    ads.advance("hourly")
    [redrive] = ads.plan("redrive", KeptRejects())
    ads.logs[0].append(1)
    assert [ranges_of(ledger, n) for n in ads.plan("next hour")] == [{0: (14, 15)}]
    assert state(ledger, redrive)[0] == "planned"


def test_a_backfill_in_the_way_of_a_head_is_taken_and_one_behind_it_is_not(ledger, ads):
    ads.logs[0].append(8)
    flow.skip(ledger, ads.broker, ads.pipeline, NamedRange("ads", 0, OffsetRange(10, 12)), reason="poison")
    [behind] = ads.plan("fill", these(10, 12))
    [ahead] = ads.plan("fill ahead", these(15, 16))
    given = ads.ask("hourly")
    assert given.batch_ids[0] == ahead
    assert [ranges_of(ledger, n) for n in given.batch_ids[1:]] == [{0: (12, 15)}, {0: (16, 18)}]
    assert [note.split(" is left")[0] for note in given.notes] == [f"batch {behind} (backfill, planned)"]
    load(ledger, given.batch_ids)
    ads.advance("hourly")
    assert next_offsets(ledger) == {0: 18}
    assert query(ledger, "SELECT state::text FROM tideline.batch WHERE batch_id = %s", behind) == [("planned",)]


def test_live_batches_come_before_a_backfill_that_was_planned_earlier(ledger, ads):
    ads.logs[0].append(6)
    [ahead] = ads.plan("fill", these(14, 16))
    [first, live] = ads.plan("hourly 1")
    assert (first, ranges_of(ledger, live)) == (ahead, {0: (10, 14)})
    assert ads.plan("hourly 2") == [live, ahead]
    finish(ledger, [live])
    assert ads.plan("hourly 3") == [ahead]
