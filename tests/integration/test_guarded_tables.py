"""The laws of rejects, attempts and events, tried from a psql prompt: Postgres itself refuses each violation."""

import psycopg2.errors
import pytest

from given_ledger.decisions import load, reject
from given_ledger.ledgers import claim, execute, plan, publish, query, refused, stage, start_streams
from tideline.domain.states import BatchKind
from tideline.ledger import reservations
from tideline.ledger.database_errors import RefusedStatementError

REJECTED = (3, 5)
ONE_MORE = """
    INSERT INTO tideline.reject (stream_id, kafka_offset, batch_id, attempt_id, step, reason)
    SELECT stream_id, 4, batch_id, attempt_id, step, reason FROM tideline.reject WHERE kafka_offset = 3
    """
OLD = "SET LOCAL session_replication_role = replica; UPDATE tideline.event SET at = at - interval '3 days'"


@pytest.fixture
def loaded(ledger):
    """Publish an attempt with ten offsets of one stream, two of them as rejects."""
    (stream,) = start_streams(ledger, 1)
    return load(ledger, stream, 0, 10, *REJECTED)


# Rejects ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "law"),
    [
        ("DELETE FROM tideline.reject WHERE kafka_offset = 3", "a reject goes with the re-drive or the replay"),
        ("UPDATE tideline.reject SET value = 'x' WHERE kafka_offset = 3", "a record is kept as it came"),
        ("UPDATE tideline.reject SET kafka_offset = 4 WHERE kafka_offset = 3", "a record is kept as it came"),
        ("UPDATE tideline.reject SET reason = 'x' WHERE kafka_offset = 3", "changes with the re-drive that has tried"),
        ("TRUNCATE tideline.reject", "its rows are history"),
        (ONE_MORE, "rejects come with the attempt that holds their batch"),
    ],
)
def test_a_reject_comes_changes_and_goes_only_with_the_attempt_that_loads_its_record(ledger, loaded, statement, law):
    before = query(ledger, "SELECT * FROM tideline.reject ORDER BY kafka_offset")
    assert law in refused(ledger, statement)
    assert query(ledger, "SELECT * FROM tideline.reject ORDER BY kafka_offset") == before


def test_what_a_replay_or_a_re_drive_is_about_to_load_is_all_that_may_go_and_only_with_it(ledger, loaded):
    (stream,) = (piece.stream_id for piece in loaded.ranges)
    goes = "DELETE FROM tideline.reject WHERE kafka_offset = %s"
    claim(ledger, plan(ledger, {stream: (4, 6)}, kind=BatchKind.REPLAY))
    assert "a reject goes" in refused(ledger, goes, 3), "outside of its offsets"
    redrive = plan(ledger, {stream: (3, 4)}, kind=BatchKind.REDRIVE, gaps_allowed=True)
    with ledger.transaction():
        reservations.take_rejects(ledger, [redrive], of_batch=None, reason_like=None)
    assert "a reject goes" in refused(ledger, goes, 3), "no attempt writes the re-drive yet"
    claim(ledger, redrive)
    for offset in REJECTED:
        assert "is published in the same" in refused(ledger, goes, offset), "and none without its batch"


def test_rejects_of_an_attempt_that_has_lost_its_batch_are_not_kept(ledger):
    (stream,) = start_streams(ledger, 1)
    batch_id = plan(ledger, {stream: (0, 10)})
    stale = claim(ledger, batch_id)
    claim(ledger, batch_id)
    reject(ledger, stale, stream, 3)
    with pytest.raises(RefusedStatementError, match="rejects come with the attempt"), ledger.transaction():
        ledger.run("move_rejects", batch_id=batch_id, attempt_id=stale.attempt_id)


# Attempts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM tideline.attempt",
        "TRUNCATE tideline.attempt CASCADE",
        "UPDATE tideline.attempt SET fence = 7",
        "UPDATE tideline.attempt SET run_id = 'another'",
        "UPDATE tideline.attempt SET ended_at = NULL, outcome = NULL",
        "UPDATE tideline.attempt SET outcome = 'failed'",
        "UPDATE tideline.attempt SET problem = 'another'",
    ],
)
def test_who_wrote_what_and_how_it_ended_never_changes(ledger, loaded, statement):
    before = query(ledger, "SELECT * FROM tideline.attempt")
    assert "history" in refused(ledger, statement)
    assert query(ledger, "SELECT * FROM tideline.attempt") == before


def test_an_attempt_has_published_only_what_is_published_by_it(ledger):
    (stream,) = start_streams(ledger, 1)
    batch_id = plan(ledger, {stream: (0, 10)})
    stale, newest = claim(ledger, batch_id), claim(ledger, batch_id)
    ends = "UPDATE tideline.attempt SET ended_at = now(), outcome = 'published', problem = NULL WHERE attempt_id = %s"
    assert "has not published it" in refused(ledger, ends, newest.attempt_id)
    stage(ledger, newest)
    publish(ledger, newest)
    assert "history" in refused(ledger, ends, stale.attempt_id)


def test_a_heart_may_beat_once_more_when_its_attempt_has_ended(ledger, loaded):
    execute(ledger, "UPDATE tideline.attempt SET heartbeat_at = now(), n_read = n_read + 1, progressed_at = now()")


# Events ----------------------------------------------------------------------------------------------------------


def test_events_are_deleted_only_before_a_date_and_never_of_open_batches(ledger):
    (stream,) = start_streams(ledger, 1)
    plan(ledger, {stream: (0, 10)})
    execute(ledger, OLD)
    assert "history" in refused(ledger, "DELETE FROM tideline.event")
    assert "history" in refused(ledger, "SET LOCAL tideline.prune_before = '2000-01-01'; DELETE FROM tideline.event")
    assert "history" in refused(ledger, "SET LOCAL tideline.prune_before = '2100-01-01'; DELETE FROM tideline.event")
    execute(ledger, "SET LOCAL tideline.prune_before = '2100-01-01'; DELETE FROM tideline.event WHERE batch_id IS NULL")
    assert "history" in refused(
        ledger, "SET LOCAL tideline.prune_before = '2100-01-01'; UPDATE tideline.event SET actor = 'me'"
    )


def test_events_of_the_last_day_stay_whatever_the_date(ledger):
    start_streams(ledger, 1)
    everything = "SET LOCAL tideline.prune_before = '2100-01-01'; DELETE FROM tideline.event"
    assert "history" in refused(ledger, everything)
    execute(ledger, OLD)
    execute(ledger, everything)


def test_a_date_to_prune_by_ends_with_its_transaction(ledger):
    start_streams(ledger, 1)
    execute(ledger, OLD)
    execute(ledger, "SET LOCAL tideline.prune_before = '2100-01-01'")
    with pytest.raises(psycopg2.errors.RestrictViolation):
        execute(ledger, "DELETE FROM tideline.event")
