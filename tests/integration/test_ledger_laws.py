"""The laws of the ledger, tried from a psql prompt: Postgres itself refuses each violation, whatever the code does."""

import pytest

from given_ledger.decisions import HOLE
from given_ledger.ledgers import claim, execute, plan, publish, published, refused, stage, start_streams
from tideline.domain.states import TRANSITIONS, BatchState
from tideline.errors import NeedsOperatorError, RetryableError


def test_an_offset_has_one_planned_owner(ledger):
    (stream,) = start_streams(ledger, 1)
    plan(ledger, {stream: (0, 10)})
    execute(
        ledger,
        "INSERT INTO tideline.batch (pipeline, kind, dag_id, run_id, seq) VALUES ('impressions', 'live', 'd', 'other', 0)",
    )
    text = refused(
        ledger,
        "INSERT INTO tideline.batch_range (batch_id, stream_id, offsets, gaps_allowed, planned_log_start, planned_end)"
        " VALUES ((SELECT max(batch_id) FROM tideline.batch), %s, '[9, 12)', false, 0, 12)",
        stream,
    )
    assert "one_owner_per_offset" in text


def test_an_offset_has_one_owner_in_the_output(ledger):
    (stream,) = start_streams(ledger, 1)
    published(ledger, {stream: (0, 10)})
    old_hole = (
        "INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by, decided_in)"
        " VALUES (%s, %s, 'skipped', 'x', 'me', '3')"
    )
    assert "one_owner_in_output" in refused(ledger, old_hole, stream, "[9,12)")


def test_no_hole_is_decided_over_offsets_that_a_batch_has_reserved(ledger):
    (stream,) = start_streams(ledger, 1)
    plan(ledger, {stream: (0, 10)})
    assert "are reserved by a batch" in refused(ledger, HOLE, stream, "[9,12)")


def test_what_is_accounted_for_stays_so(ledger):
    (stream,) = start_streams(ledger, 1)
    published(ledger, {stream: (0, 10)})
    assert "would no longer be accounted for" in refused(ledger, "DELETE FROM tideline.coverage")
    assert "history" in refused(ledger, "UPDATE tideline.coverage SET offsets = '[0, 9)'")


def test_coverage_names_published_batches_only(ledger):
    (stream,) = start_streams(ledger, 1)
    batch = plan(ledger, {stream: (0, 10)})
    cover = "INSERT INTO tideline.coverage (stream_id, offsets, batch_id) VALUES (%s, '[0, 10)', %s)"
    assert "has not published" in refused(ledger, cover, stream, batch)


def test_a_hole_has_a_reason_and_a_name(ledger):
    (stream,) = start_streams(ledger, 1)
    text = refused(
        ledger, "INSERT INTO tideline.coverage (stream_id, offsets, hole) VALUES (%s, '[0, 10)', 'lost')", stream
    )
    assert "holes_have_a_name" in text


def test_a_head_never_goes_back(ledger):
    (stream,) = start_streams(ledger, 1, start=5)
    published(ledger, {stream: (5, 10)})
    execute(ledger, "UPDATE tideline.stream SET next_offset = 10")
    assert "never goes back" in refused(ledger, "UPDATE tideline.stream SET next_offset = 9")


def test_a_head_never_jumps_over_unpublished_offsets(ledger):
    (stream,) = start_streams(ledger, 1)
    plan(ledger, {stream: (0, 10)})
    assert "cannot pass unpublished" in refused(ledger, "UPDATE tideline.stream SET next_offset = 10")


def test_a_head_never_jumps_over_a_gap_between_published_batches(ledger):
    (stream,) = start_streams(ledger, 1)
    published(ledger, {stream: (0, 4)})
    with ledger.connection as connection:
        connection.cursor().execute(
            "INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by) VALUES (%s, '[6,10)', 'lost', 'x', 'me')",
            (stream,),
        )
    assert "cannot pass unpublished" in refused(ledger, "UPDATE tideline.stream SET next_offset = 10")


@pytest.mark.parametrize("offsets", ["empty", "[5,5)", "[,5)", "[5,)", "[-1,5)"])
def test_a_range_is_neither_empty_nor_infinite_nor_negative(ledger, offsets):
    (stream,) = start_streams(ledger, 1)
    batch = plan(ledger, {stream: (0, 10)})
    refused(
        ledger,
        "INSERT INTO tideline.batch_range (batch_id, stream_id, offsets, gaps_allowed, planned_log_start, planned_end)"
        " VALUES (%s, %s, %s, false, 0, 10)",
        batch,
        stream,
        offsets,
    )
    refused(
        ledger,
        "INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by) VALUES (%s, %s, 'lost', 'x', 'me')",
        stream,
        offsets,
    )


def test_a_batch_without_counts_cannot_be_published(ledger):
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}))
    text = refused(ledger, "UPDATE tideline.batch SET state = 'published' WHERE batch_id = %s", attempt.batch_id)
    assert "without counts" in text


def test_lost_staging_cannot_be_published(ledger):
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}))
    stage(ledger, attempt)
    with pytest.raises(RetryableError, match="what was staged is not what was read"):
        publish(ledger, attempt, written={stream: 9})


def test_missing_offsets_cannot_be_published(ledger):
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}))
    stage(ledger, attempt, n_read=9)
    with pytest.raises(NeedsOperatorError, match="gaps_are_allowed"):
        publish(ledger, attempt, written={stream: 9})


def test_gaps_are_published_where_they_are_allowed(ledger):
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}, gaps_allowed=True))
    stage(ledger, attempt, n_read=9)
    publish(ledger, attempt, written={stream: 9})
    with ledger.transaction():
        assert ledger.rows("list_ranges", batch_id=attempt.batch_id)[0]["n_gap"] == 1


def test_a_log_that_was_cut_behind_the_read_cannot_be_published(ledger):
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}))
    stage(ledger, attempt)
    with pytest.raises(NeedsOperatorError, match="end_not_behind"):
        publish(ledger, attempt, cut=1)


def test_gaps_that_retention_may_have_made_cannot_be_published(ledger):
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}, gaps_allowed=True))
    stage(ledger, attempt, n_read=9)
    with pytest.raises(NeedsOperatorError, match="retention_not_ahead"):
        publish(ledger, attempt, written={stream: 9}, log_start=1)


def test_retention_may_pass_a_range_that_was_read_whole(ledger):
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}))
    stage(ledger, attempt)
    publish(ledger, attempt, log_start=10)
    with ledger.transaction():
        assert ledger.rows("list_ranges", batch_id=attempt.batch_id)[0]["n_written"] == 10


def test_a_count_is_taken_once_however_often_its_task_ran(ledger):
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}))
    stage(ledger, attempt)
    again = "INSERT INTO tideline.staged_count VALUES (%s, %s, 3, 12, 10, 0)"
    assert "counted_once" in refused(ledger, again, attempt.attempt_id, stream)


def test_an_advanced_batch_never_changes(ledger):
    (stream,) = start_streams(ledger, 1)
    batch = published(ledger, {stream: (0, 10)})
    execute(ledger, "UPDATE tideline.stream SET next_offset = 10")
    execute(ledger, "UPDATE tideline.batch SET state = 'advanced'")
    for sql in (
        "UPDATE tideline.batch SET run_id = 'other'",
        "UPDATE tideline.batch SET state = 'failed'",
        "UPDATE tideline.batch SET fence = fence + 1",
        "UPDATE tideline.batch_range SET n_written = n_written - 1, n_filtered = n_filtered + 1",
        "UPDATE tideline.batch_range SET offsets = '[0, 11)'",
        "DELETE FROM tideline.batch_range",
        "DELETE FROM tideline.batch",
    ):
        assert str(batch) in refused(ledger, sql) or "history" in refused(ledger, sql)


def test_an_event_never_changes(ledger):
    start_streams(ledger, 1)
    for sql in ("UPDATE tideline.event SET actor = 'me'", "DELETE FROM tideline.event", "TRUNCATE tideline.event"):
        assert "history" in refused(ledger, sql)


def test_planned_ranges_never_change(ledger):
    (stream,) = start_streams(ledger, 1)
    claim(ledger, plan(ledger, {stream: (0, 10)}))
    assert "never changes" in refused(ledger, "UPDATE tideline.batch_range SET offsets = '[0, 9)'")
    assert "never changes" in refused(ledger, "UPDATE tideline.batch_range SET gaps_allowed = true")


def test_a_claim_raises_the_fence_by_one_and_names_a_new_attempt(ledger):
    (stream,) = start_streams(ledger, 1)
    claim(ledger, plan(ledger, {stream: (0, 10)}))
    for sql in (
        "UPDATE tideline.batch SET state = 'writing'",
        "UPDATE tideline.batch SET state = 'writing', fence = fence + 1",
        "UPDATE tideline.batch SET state = 'failed', fence = fence + 1",
    ):
        assert "attempt" in refused(ledger, sql)


def test_states_and_ways_in_the_database_are_those_of_the_code(ledger):
    with ledger.connection.cursor() as cursor:
        cursor.execute("SELECT unnest(enum_range(NULL::tideline.batch_state))::text")
        assert [row[0] for row in cursor] == [state.value for state in BatchState]
        cursor.execute("SELECT pg_get_functiondef('tideline.check_batch'::regproc)")
        body = cursor.fetchone()[0]
    for before in BatchState:
        for after in BatchState:
            assert (f"'{before}>{after}'" in body) == ((before, after) in TRANSITIONS), (before, after)
