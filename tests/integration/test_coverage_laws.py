"""The laws of coverage, tried from a psql prompt: Postgres itself refuses each violation."""

from given_ledger.decisions import HOLE, loaded, replay
from given_ledger.ledgers import execute, plan, publish, query, refused, start_streams
from tideline.domain.states import BatchKind


def test_a_hole_never_grows_over_what_a_batch_has_reserved(ledger):
    (stream,) = start_streams(ledger, 1)
    execute(ledger, HOLE, stream, "[10, 12)")
    plan(ledger, {stream: (0, 10)})
    assert "are reserved by a batch" in refused(ledger, "UPDATE tideline.coverage SET offsets = '[8, 12)'")


def test_the_rest_of_a_hole_stays_beside_two_backfills_that_fill_it(ledger):
    """The rest is not a new decision: it may lie over what the other backfill has reserved."""
    (stream,) = start_streams(ledger, 1)
    execute(ledger, HOLE, stream, "[0, 10)")
    before = query(ledger, "SELECT reason, decided_by, recorded_at FROM tideline.coverage")
    one, two = (replay(ledger, stream, start, start + 2, BatchKind.BACKFILL) for start in (1, 6))
    publish(ledger, one)
    publish(ledger, two)
    found = query(ledger, "SELECT lower(offsets), upper(offsets), batch_id FROM tideline.coverage ORDER BY 1")
    assert found == [(0, 1, None), (1, 3, one.batch_id), (3, 6, None), (6, 8, two.batch_id), (8, 10, None)]
    assert (
        query(ledger, "SELECT DISTINCT reason, decided_by, recorded_at FROM tideline.coverage WHERE hole IS NOT NULL")
        == before
    )
    assert query(ledger, "SELECT count(*) FROM tideline.event WHERE action = 'skip'") == [(1,)]


def test_a_clock_that_has_stepped_back_makes_no_old_hole_new(ledger):
    (stream,) = start_streams(ledger, 1)
    execute(ledger, HOLE, stream, "[0, 10)")
    ahead = "UPDATE tideline.coverage SET recorded_at = now() + interval '1 hour'"
    execute(ledger, f"SET LOCAL session_replication_role = replica; {ahead}")
    one, two = (replay(ledger, stream, start, start + 2, BatchKind.BACKFILL) for start in (1, 6))
    publish(ledger, one)
    publish(ledger, two)
    assert query(ledger, "SELECT count(*) FROM tideline.event WHERE action = 'skip'") == [(1,)]


def test_a_clock_that_is_behind_makes_no_new_hole_old(ledger):
    (stream,) = start_streams(ledger, 1)
    plan(ledger, {stream: (0, 10)})
    late = (
        "INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by, recorded_at)"
        " VALUES (%s, %s, 'skipped', 'x', 'me', now() - interval '1 hour')"
    )
    assert "are reserved by a batch" in refused(ledger, late, stream, "[9,12)")
    execute(ledger, late, stream, "[10,12)")
    assert query(ledger, "SELECT count(*) FROM tideline.event WHERE action = 'skip'") == [(1,)]


def test_what_is_accounted_for_stays_so_however_it_changes_hands(ledger):
    stream, batch_id = loaded(ledger)
    execute(ledger, HOLE, stream, "[10, 20)")
    for sql in (
        "DELETE FROM tideline.coverage WHERE hole IS NOT NULL",
        f"DELETE FROM tideline.coverage; INSERT INTO tideline.coverage (stream_id, offsets, batch_id) VALUES ({stream}, '[0, 9)', {batch_id})",
    ):
        assert "would no longer be accounted for" in refused(ledger, sql)
    for sql in (
        "UPDATE tideline.coverage SET offsets = '[11, 20)' WHERE hole IS NOT NULL",
        "TRUNCATE tideline.coverage CASCADE",
    ):
        assert "history" in refused(ledger, sql)


def test_a_replay_owns_only_what_it_has_published(ledger):
    stream, _ = loaded(ledger)
    attempt = replay(ledger, stream, 2, 5)
    steal = "UPDATE tideline.coverage SET batch_id = %s"
    assert "has not published" in refused(ledger, steal, attempt.batch_id)
    publish(ledger, attempt)
    assert "has not published" in refused(ledger, steal, attempt.batch_id), "more than its ranges"
