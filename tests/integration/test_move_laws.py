"""The laws of backfill, replay, re-drive and decisions, tried from a psql prompt: Postgres itself refuses each violation."""

import pytest

from given_ledger.decisions import HOLE, loaded
from given_ledger.ledgers import (
    PIPELINE,
    claim,
    execute,
    plan,
    publish,
    published,
    query,
    refused,
    stage,
    start_streams,
)
from tideline.ledger import decisions, heads

RANGE = (
    "INSERT INTO tideline.batch_range (batch_id, stream_id, offsets, gaps_allowed, reserves, planned_log_start, planned_end)"
    " VALUES (%s, %s, %s, false, %s, 0, 1000)"
)


def begun(ledger, kind, pipeline=PIPELINE):
    """Insert a batch of one kind without ranges."""
    return query(
        ledger,
        "INSERT INTO tideline.batch (pipeline, kind, dag_id, run_id, seq)"
        " SELECT %s, %s, 'd', 'r', count(*) FROM tideline.batch RETURNING batch_id",
        pipeline,
        kind,
    )[0][0]


# Ranges ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "reserves"), [("live", True), ("backfill", True), ("replay", False), ("redrive", False)]
)
def test_live_batches_and_backfills_reserve_and_the_others_do_not(ledger, kind, reserves):
    stream, _ = loaded(ledger)
    batch_id = begun(ledger, kind)
    offsets = "[10, 15)" if reserves else "[0, 5)"
    assert "belongs to a planned batch" in refused(ledger, RANGE, batch_id, stream, offsets, not reserves)
    execute(ledger, RANGE, batch_id, stream, offsets, reserves)


def test_a_range_is_of_a_stream_of_the_batchs_pipeline(ledger):
    (stream,) = start_streams(ledger, 1)
    start_streams(ledger, 1, pipeline="another")
    assert "of its stream's pipeline" in refused(
        ledger, RANGE, begun(ledger, "live", "another"), stream, "[0, 5)", True
    )


def test_a_live_range_begins_at_the_head_or_behind_it(ledger):
    stream, _ = loaded(ledger, start=5)
    batch_id = begun(ledger, "live")
    assert "are accounted for" in refused(ledger, RANGE, batch_id, stream, "[0, 5)", True), "before the stream's start"
    assert "are accounted for" in refused(ledger, RANGE, batch_id, stream, "[9, 12)", True)
    execute(ledger, RANGE, batch_id, stream, "[10, 12)", True)


def test_a_live_range_takes_nothing_that_was_skipped(ledger):
    (stream,) = start_streams(ledger, 1)
    execute(ledger, HOLE, stream, "[6, 8)")
    assert "are accounted for" in refused(ledger, RANGE, begun(ledger, "live"), stream, "[0, 7)", True)


def test_a_backfill_takes_holes_and_never_what_a_batch_has_loaded(ledger):
    stream, _ = loaded(ledger)
    execute(ledger, HOLE, stream, "[10, 20)")
    batch_id = begun(ledger, "backfill")
    assert "are loaded" in refused(ledger, RANGE, batch_id, stream, "[9, 12)", True)
    execute(ledger, RANGE, batch_id, stream, "[10, 12)", True)


def test_a_backfill_takes_nothing_that_an_open_batch_has_reserved(ledger):
    (stream,) = start_streams(ledger, 1)
    plan(ledger, {stream: (0, 10)})
    assert "one_owner_per_offset" in refused(ledger, RANGE, begun(ledger, "backfill"), stream, "[9, 12)", True)


def test_a_replay_takes_only_what_batches_have_loaded(ledger):
    """A replay that also published other offsets would obstruct every later plan."""
    stream, _ = loaded(ledger)
    execute(ledger, HOLE, stream, "[10, 12)")
    batch_id = begun(ledger, "replay")
    for offsets in ("[9, 11)", "[10, 12)", "[12, 15)", "[0, 13)"):
        assert "are loaded" in refused(ledger, RANGE, batch_id, stream, offsets, False)
    execute(ledger, RANGE, batch_id, stream, "[2, 10)", False)


def test_offsets_of_a_replay_are_neither_freed_nor_reserved(ledger):
    """Abandoning a replay changes only its state."""
    stream, _ = loaded(ledger)
    batch_id = begun(ledger, "replay")
    execute(ledger, RANGE, batch_id, stream, "[0, 10)", False)
    assert "what was planned never changes" in refused(
        ledger, "UPDATE tideline.batch_range SET reserves = true WHERE batch_id = %s", batch_id
    )
    execute(ledger, "UPDATE tideline.batch SET state = 'abandoned' WHERE batch_id = %s", batch_id)


# Counts ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def rejecting(ledger):
    """Publish a batch of ten records three of which were rejected."""
    (stream,) = start_streams(ledger, 1)
    stage(ledger, attempt := claim(ledger, plan(ledger, {stream: (0, 10)})))
    with ledger.transaction():
        ledger.run(
            "stage_rejects",
            attempt=attempt.attempt,
            stream_ids=[stream] * 3,
            offsets=[1, 2, 3],
            steps=["decode"] * 3,
            reasons=["bad"] * 3,
            timestamps_ms=[0] * 3,
            keys=[None] * 3,
            values=[b"x"] * 3,
            headers=[None] * 3,
        )
    publish(ledger, attempt, written={stream: 7})
    return attempt.batch_id


@pytest.mark.parametrize(
    "change",
    [
        "n_rejected = 4, n_written = 6",
        "n_written = 6, n_filtered = 1",
        "n_written = 8, n_filtered = 0, n_read = 11, n_gap = 0",
        "n_rejected = 2",
        "n_rejected = 0, n_written = 11, n_filtered = -1",
        "n_bytes = n_bytes + 1, n_rejected = 2, n_written = 8",
        "first_read = 1, n_rejected = 2, n_written = 8",
        "published_end = 99, n_rejected = 2, n_written = 8",
    ],
)
def test_counts_change_in_one_way_only_when_rejects_become_written_or_filtered(ledger, rejecting, change):
    refused(ledger, f"UPDATE tideline.batch_range SET {change}")
    execute(ledger, "UPDATE tideline.batch_range SET n_rejected = 1, n_written = 8, n_filtered = 1")


# Batches and re-drives -------------------------------------------------------------------------------------------


def test_why_a_batch_was_planned_never_changes(ledger):
    (stream,) = start_streams(ledger, 1)
    batch_id = plan(ledger, {stream: (0, 10)})
    for sql in ("SET reason = 'mine'", "SET supersedes = batch_id", "SET kind = 'replay'"):
        assert "what was planned never changes" in refused(
            ledger, f"UPDATE tideline.batch {sql} WHERE batch_id = %s", batch_id
        )


def test_a_reason_is_never_blank(ledger):
    (stream,) = start_streams(ledger, 1)
    sql = (
        "INSERT INTO tideline.batch (pipeline, kind, dag_id, run_id, seq, reason) VALUES (%s, 'live', 'd', 'r', 0, '')"
    )
    assert "batch_reason_check" in refused(ledger, sql, PIPELINE)
    assert "reason" in refused(ledger, HOLE.replace("'poison'", "''"), stream, "[0, 5)")
    assert "decided_by" in refused(ledger, HOLE.replace("'ada'", "''"), stream, "[0, 5)")


def test_which_rejects_a_redrive_takes_never_changes(ledger):
    (stream,) = start_streams(ledger, 1)
    batch_id = begun(ledger, "redrive")
    execute(ledger, RANGE, batch_id, stream, "[0, 5)", False)
    execute(ledger, "INSERT INTO tideline.redrive VALUES (%s, %s, 3)", batch_id, stream)
    for sql in ("UPDATE tideline.redrive SET kafka_offset = 4", "DELETE FROM tideline.redrive"):
        assert "history" in refused(ledger, sql)
    assert "foreign key" in refused(ledger, "INSERT INTO tideline.redrive VALUES (%s, %s, 3)", batch_id, stream + 1)
    assert "redrive_pkey" in refused(ledger, "INSERT INTO tideline.redrive VALUES (%s, %s, 3)", batch_id, stream)


# Streams ---------------------------------------------------------------------------------------------------------


def test_a_retired_stream_never_changes_but_for_coming_back_as_it_was(ledger):
    (stream,) = start_streams(ledger, 1)
    published(ledger, {stream: (0, 10)})
    execute(ledger, "UPDATE tideline.stream SET state = 'retired'")
    before = query(ledger, "SELECT * FROM tideline.stream")
    for change in (
        "next_offset = 10",
        "state = 'active'",
        "state = 'active', stopped_because = 'x'",
        "state = 'stopped', stopped_because = 'x', next_offset = 10",
        "state = 'stopped', stopped_because = 'x', accepted_end = 3",
        "state = 'stopped', stopped_because = 'x', leader_epoch = 3",
        "accepted_end = 3",
        "leader_epoch = 3",
        "topic = topic",
    ):
        assert "is retired: it never changes" in refused(ledger, f"UPDATE tideline.stream SET {change}")
    assert "history" in refused(ledger, "DELETE FROM tideline.stream")
    assert query(ledger, "SELECT * FROM tideline.stream") == before
    execute(ledger, "UPDATE tideline.stream SET state = 'stopped', stopped_because = 'it is back'")
    assert query(ledger, "SELECT next_offset, accepted_end, leader_epoch FROM tideline.stream") == [(0, None, None)]


def test_a_stream_is_stopped_for_a_reason_and_an_accepted_end_is_an_offset(ledger):
    start_streams(ledger, 1)
    refused(ledger, "UPDATE tideline.stream SET state = 'stopped'")
    refused(ledger, "UPDATE tideline.stream SET stopped_because = 'offsets'")
    refused(ledger, "UPDATE tideline.stream SET accepted_end = -1")


def test_a_published_batch_of_a_retired_stream_is_finished_and_of_a_live_one_not(ledger):
    one, two = start_streams(ledger, 2)
    published(ledger, {one: (0, 10), two: (5, 9)})
    advance = "UPDATE tideline.batch SET state = 'advanced'"
    assert "not every head has passed it" in refused(ledger, advance)
    execute(ledger, "UPDATE tideline.stream SET state = 'retired' WHERE stream_id = %s", two)
    assert "not every head has passed it" in refused(ledger, advance)
    assert len(heads.advance_published(ledger, PIPELINE)) == 1


# Events ----------------------------------------------------------------------------------------------------------


def test_events_carry_the_reason_of_their_transaction_and_keep_their_own(ledger):
    (stream,) = start_streams(ledger, 1)
    with ledger.transaction():
        decisions.set_reason(ledger, "the whole transaction")
        ledger.connection.cursor().execute(HOLE, (stream, "[0, 5)"))
        ledger.connection.cursor().execute("UPDATE tideline.stream SET state = 'stopped', stopped_because = 'x'")
    execute(ledger, "UPDATE tideline.stream SET state = 'active', stopped_because = NULL")
    found = query(ledger, "SELECT action, detail ->> 'reason' FROM tideline.event ORDER BY event_id")
    assert found == [("start", None), ("skip", "poison"), ("stop", "the whole transaction"), ("resume", None)]
