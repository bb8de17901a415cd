"""The laws of state, tried from a psql prompt: Postgres itself refuses each violation, whatever the code does."""

import psycopg2
import pytest

from given_ledger.decisions import HOLE
from given_ledger.ledgers import PIPELINE, claim, execute, plan, refused, stage, start_streams
from given_ledger.ledgers import publish as publish_rows
from given_ledger.states import (
    LATER,
    REWIND,
    SOONER,
    folded,
    out_of_turn,
    planned,
    positions,
    publish,
    read_again,
    refuses,
    staged,
)
from tideline.domain.states import BatchKind
from tideline.errors import NeedsOperatorError

# Batches ---------------------------------------------------------------------------------------------------------


def test_whether_a_batch_is_stateful_never_changes(ledger, stream):
    claim(ledger, planned(ledger, {stream: (0, 10)}))
    change = "UPDATE tideline.batch SET stateful = false, state = 'failed'"
    assert "what was planned never changes" in refused(ledger, change)


@pytest.mark.parametrize(
    ("kind", "outside"), [("replay", False), ("redrive", False), ("live", True), ("backfill", True)]
)
def test_a_stateful_batch_loads_what_was_not_loaded_into_the_ledgers_database(ledger, stream, kind, outside):
    insert = "INSERT INTO tideline.batch (pipeline, kind, dag_id, run_id, seq, stateful, outside) VALUES (%s, %s, 'd', 'r', 0, true, %s)"
    assert "state_is_folded_in_order" in refused(ledger, insert, PIPELINE, kind, outside)


def test_a_stateful_batch_is_published_with_the_state_of_all_its_records_or_not_at_all(ledger):
    one, other = start_streams(ledger, 2)
    attempt = claim(ledger, planned(ledger, {one: (0, 10), other: (0, 10)}))
    stage(ledger, attempt)
    with pytest.raises(NeedsOperatorError, match="with the state of all its records, or not at all"):
        publish_rows(ledger, attempt)
    of_one = (
        "INSERT INTO tideline.state_batch VALUES (%(batch)s, 'impressions', 1, 'v1', 0, 0);"
        " INSERT INTO tideline.state_position VALUES (%(one)s, 'impressions', 10, NULL, 1, %(batch)s);"
        " UPDATE tideline.batch_range SET n_read = 10, n_written = 10, n_rejected = 0, n_filtered = 0, n_gap = 0, published_log_start = 0,"
        " published_end = 10; UPDATE tideline.batch SET state = 'published'"
    )
    with pytest.raises(psycopg2.errors.CheckViolation, match="with the state of all its records"), ledger.connection:
        ledger.connection.cursor().execute(of_one, {"batch": attempt.batch_id, "one": one})
    publish(ledger, attempt, staged(ledger, attempt))
    assert {stream: row[0] for stream, row in positions(ledger).items()} == {one: 10, other: 10}


def test_what_is_folded_is_published_in_the_same_transaction(ledger, stream):
    attempt = claim(ledger, planned(ledger, {stream: (0, 10)}))
    fold = "INSERT INTO tideline.state_batch VALUES (%s, 'impressions', 1, 'v1', 0, 0)"
    assert "published in the same transaction" in refused(ledger, fold, attempt.batch_id)


def test_only_a_stateful_batch_that_is_being_written_is_folded(ledger, stream, two):
    fold = "INSERT INTO tideline.state_batch VALUES (%s, 'impressions', %s, 'v1', 0, 0)"
    assert "only a stateful batch that is being written" in refused(
        ledger, fold, planned(ledger, {stream: (20, 30)}), 3
    )
    other = claim(ledger, plan(ledger, {stream: (30, 40)}))
    assert "only a stateful batch that is being written" in refused(ledger, fold, other.batch_id, 3)


def test_the_batches_of_a_state_are_numbered_one_by_one(ledger, stream, two):
    attempt = claim(ledger, planned(ledger, {stream: (20, 30)}))
    fold = "INSERT INTO tideline.state_batch VALUES (%s, 'impressions', %s, 'v1', 0, 0)"
    for seq in (2, 4):
        assert "numbered one by one" in refused(ledger, fold, attempt.batch_id, seq)


def test_a_pipeline_with_a_state_has_no_replay_and_no_re_drive(ledger, stream, two):
    """They would load records that are folded already, or fold them at the wrong place."""
    insert = "INSERT INTO tideline.batch (pipeline, kind, dag_id, run_id, seq) VALUES (%s, %s, 'd', 'r', 0)"
    for kind in ("replay", "redrive"):
        assert "folded already" in refused(ledger, insert, PIPELINE, kind)


def test_a_batch_that_is_folded_is_not_superseded(ledger, two):
    assert "was not rewound" in refused(
        ledger, "UPDATE tideline.batch SET state = 'superseded' WHERE batch_id = %s", two[1]
    )


def test_offsets_that_are_folded_stay_loaded(ledger, two):
    assert "are folded into the state" in refused(ledger, "DELETE FROM tideline.coverage WHERE batch_id = %s", two[0])


# Positions -------------------------------------------------------------------------------------------------------


def test_a_position_moves_only_with_the_batch_that_is_published(ledger, stream, two):
    move = "UPDATE tideline.state_position SET next_offset = %s, version = version + 1, batch_id = %s"
    assert "only to the end of a range" in refused(ledger, move, 25, two[1])
    assert "only a rewind goes back" in refused(ledger, move, 10, two[0])
    attempt = claim(ledger, planned(ledger, {stream: (20, 30)}))
    fold = "INSERT INTO tideline.state_batch VALUES (%s, 'impressions', 3, 'v1', 0, 0); "
    assert "only to the end of a range" in refused(
        ledger, (fold + move) % (attempt.batch_id, "29", str(attempt.batch_id))
    )
    insert = "INSERT INTO tideline.state_position VALUES (%s, 'impressions', 10, NULL, 1, %s)"
    (new,) = start_streams(ledger, 1, pipeline="another")
    assert "only to the end of a range" in refused(ledger, insert, new, two[1])


def test_a_batch_whose_ranges_do_not_begin_where_the_state_stands_is_not_published(ledger, stream):
    first, second = planned(ledger, {stream: (0, 10)}), planned(ledger, {stream: (10, 20)})
    early = out_of_turn(ledger, second)
    found = staged(ledger, early)
    assert "it is folded up to 0, the range begins at 10" in refuses(ledger, early, found)
    folded(ledger, first)
    publish(ledger, early, read_again(ledger, early, found))
    assert positions(ledger)[stream][0] == 20


def test_holes_before_a_batch_are_no_obstacle(ledger, stream):
    execute(ledger, HOLE, stream, "[0, 3)")
    folded(ledger, planned(ledger, {stream: (3, 10)}))
    execute(ledger, HOLE, stream, "[10, 15)")
    execute(ledger, HOLE, stream, "[15, 18)")
    folded(ledger, planned(ledger, {stream: (18, 20)}))
    assert positions(ledger)[stream][0] == 20


def test_offsets_that_a_hole_covers_in_part_are_an_obstacle(ledger, stream):
    execute(ledger, HOLE, stream, "[0, 3)")
    attempt = out_of_turn(ledger, planned(ledger, {stream: (4, 10)}))
    assert "it is folded up to 0, the range begins at 4" in refuses(ledger, attempt, staged(ledger, attempt))


def test_a_backfill_of_what_lies_before_the_position_is_not_published(ledger, stream):
    execute(ledger, HOLE, stream, "[0, 3)")
    folded(ledger, planned(ledger, {stream: (3, 10)}))
    attempt = out_of_turn(ledger, planned(ledger, {stream: (0, 3)}, kind=BatchKind.BACKFILL))
    assert "only a rewind goes back" in refuses(ledger, attempt, staged(ledger, attempt))


def test_every_change_of_a_position_has_a_version_of_its_own(ledger, stream, two):
    assert "a version of its own" in refused(ledger, "UPDATE tideline.state_position SET version = version")
    assert "a version of its own" in refused(ledger, "UPDATE tideline.state_position SET version = version + 2")


def test_the_largest_event_time_never_goes_back(ledger, stream, two):
    attempt = claim(ledger, planned(ledger, {stream: (20, 30)}))
    for time in ("'2026-11-23 11:00Z'", "NULL"):
        move = (
            f"INSERT INTO tideline.state_batch VALUES (%s, 'impressions', 3, 'v1', 0, 0);"
            f" UPDATE tideline.state_position SET next_offset = 30, version = version + 1, max_time = {time}, batch_id = %s"
        )
        assert "never goes back" in refused(ledger, move, attempt.batch_id, attempt.batch_id)
    stage(ledger, attempt)
    publish(ledger, attempt, staged(ledger, attempt, max_times={stream: SOONER}))
    assert positions(ledger)[stream][1] == LATER, "late records leave it where it was"


def test_positions_and_folded_batches_are_never_deleted(ledger, two):
    for table in ("state_position", "state_batch", "rewind"):
        if table == "rewind":
            execute(ledger, REWIND, PIPELINE)
        assert "its rows are history" in refused(ledger, f"DELETE FROM tideline.{table}")


# States ----------------------------------------------------------------------------------------------------------


def test_a_state_changes_only_with_the_batch_that_is_published(ledger, stream, two):
    for change in (
        "UPDATE tideline.state SET value = '{}'",
        "DELETE FROM tideline.state",
        f"INSERT INTO tideline.state VALUES ('impressions', '[\"dan\"]', {stream}, '{{}}', NULL, 1, {two[1]})",
    ):
        assert "a state changes with the batch that is published" in refused(ledger, change)
    claim(ledger, planned(ledger, {stream: (20, 30)}))
    assert "a state changes with the batch that is published" in refused(ledger, "DELETE FROM tideline.state")


def test_a_state_names_its_batch_and_a_stream_of_its_pipeline(ledger, stream, two):
    (other,) = start_streams(ledger, 1, pipeline="another")
    attempt = claim(ledger, planned(ledger, {stream: (20, 30)}))
    stage(ledger, attempt)
    found = staged(ledger, attempt, [(1, '["dan"]', other, {}, None, 21)])
    assert "names its batch, and a stream of its pipeline" in refuses(ledger, attempt, found)
    for change in (f"UPDATE tideline.state SET batch_id = {two[0]}", f"UPDATE tideline.state SET stream_id = {other}"):
        fold = "INSERT INTO tideline.state_batch VALUES (%s, 'impressions', 3, 'v1', 0, 0); "
        assert "names its batch" in refused(ledger, fold + change, attempt.batch_id)


def test_a_state_keeps_its_key_and_is_never_truncated(ledger, two):
    assert "is refused" in refused(ledger, "UPDATE tideline.state SET key = 'x' || key")
    for table in ("state", "state_undo", "state_position_undo"):
        assert "is refused" in refused(ledger, f"TRUNCATE tideline.{table}")
