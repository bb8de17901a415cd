"""The laws of batches of outside sinks, tried from a psql prompt: Postgres itself refuses each violation, whatever the code does."""

import pytest

from given_ledger.decisions import reject
from given_ledger.ledgers import PIPELINE, RUN, claim, execute, plan, query, refused, stage, start_streams
from tideline.domain.facts import PartitionFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind
from tideline.ledger import cleanup, intents, reservations
from tideline.ledger.connection import Ledger
from tideline.ledger.intents import Intent
from tideline.ledger.publishing import Written
from tideline.ledger.reservations import Reservation
from tideline.sinks.staging_tables import staging_name


def planned(ledger, stream, kind=BatchKind.LIVE, *, end=10, outside=True):
    facts = PartitionFacts(partition=0, log_start=0, end=end)
    piece = {stream: Reservation(offsets=OffsetRange(0, end), gaps_allowed=False, facts=facts)}
    with ledger.transaction():
        return reservations.reserve(ledger, PIPELINE, RUN, kind, [piece], outside=outside)[0]


def intent_of(attempt, n_written=10):
    [piece] = attempt.ranges
    facts = {piece.stream_id: PartitionFacts(partition=0, log_start=0, end=piece.offsets.end)}
    return Intent(
        attempt_id=attempt.attempt_id, attempt=attempt.attempt, fence=attempt.fence, output="lake", n_rows=n_written,
        written=Written(n_written={piece.stream_id: n_written}), facts=facts, filtered_by_difference=False,
    )  # fmt: skip


@pytest.fixture
def stream(ledger):
    return start_streams(ledger, 1)[0]


@pytest.fixture
def intended(ledger, stream):
    """An attempt that has stored its intent."""
    attempt = claim(ledger, planned(ledger, stream))
    stage(ledger, attempt)
    intents.intend(ledger, attempt, intent_of(attempt))
    return attempt


def test_whether_a_batch_is_outside_never_changes(ledger, stream):
    planned(ledger, stream)
    assert "what was planned never changes" in refused(ledger, "UPDATE tideline.batch SET outside = false")


def test_each_batch_has_an_identity_of_its_own_that_never_changes(ledger, stream):
    first = planned(ledger, stream)
    second = plan(ledger, {stream: (10, 20)})
    [(one,), (other,)] = query(ledger, "SELECT identity FROM tideline.batch ORDER BY batch_id")
    assert (claim(ledger, first).identity, claim(ledger, second).identity) == (one, other)
    assert one != other
    for change in ("gen_random_uuid()", "NULL"):
        assert "what was planned never changes" in refused(ledger, f"UPDATE tideline.batch SET identity = {change}")
    twice = "INSERT INTO tideline.batch (pipeline, kind, dag_id, run_id, seq, identity) SELECT pipeline, kind, dag_id, run_id, 9, identity"
    assert "batch_identity_key" in refused(ledger, f"{twice} FROM tideline.batch WHERE batch_id = {first}")


def test_an_outside_batch_is_published_only_with_the_intent_of_one_of_its_attempts(ledger, intended):
    publish = "UPDATE tideline.batch SET state = 'published'"
    assert "without counts" in refused(ledger, publish)
    count = (
        "UPDATE tideline.batch_range SET n_read = 10, n_written = 10, n_rejected = 0, n_filtered = 0, n_gap = 0,"
        " published_log_start = 0, published_end = 10; "
    )
    assert "outside_names_its_writer" in refused(ledger, count + publish)
    other = claim(ledger, plan(ledger, {intended.ranges[0].stream_id: (10, 20)}))
    settle = "UPDATE tideline.batch SET written_by = %s WHERE batch_id = %s"
    assert "written_as_intended" in refused(ledger, settle, other.attempt_id, intended.batch_id)


def test_what_is_settled_is_published_in_the_same_transaction(ledger, intended):
    settle = "UPDATE tideline.batch SET written_by = %s"
    assert "published in the same transaction" in refused(ledger, settle, intended.attempt_id)


def test_a_batch_inside_is_neither_sealed_nor_settled(ledger, stream):
    claim(ledger, plan(ledger, {stream: (0, 10)}))
    assert "only_outside_is_sealed_and_settled" in refused(ledger, "UPDATE tideline.batch SET sealed_fence = 5")


def test_a_seal_only_rises_and_only_on_an_open_batch(ledger, intended):
    execute(ledger, "UPDATE tideline.batch SET sealed_fence = 2")
    assert "a seal only rises" in refused(ledger, "UPDATE tideline.batch SET sealed_fence = 1")
    execute(ledger, "UPDATE tideline.batch SET state = 'failed'")
    execute(ledger, "UPDATE tideline.batch SET state = 'abandoned'")
    assert "only an open batch" in refused(ledger, "UPDATE tideline.batch SET sealed_fence = 3")


def test_what_may_be_committed_is_not_abandoned(ledger, intended):
    execute(ledger, "UPDATE tideline.batch SET state = 'failed'")
    assert "is not sealed" in refused(ledger, "UPDATE tideline.batch SET state = 'abandoned'")
    execute(ledger, "UPDATE tideline.batch SET sealed_fence = 1")
    assert "is not sealed" in refused(ledger, "UPDATE tideline.batch SET state = 'abandoned'")
    execute(ledger, "UPDATE tideline.batch SET sealed_fence = 2")
    execute(ledger, "UPDATE tideline.batch SET state = 'abandoned'")


def test_what_a_seal_has_ruled_out_is_not_settled(ledger, intended):
    execute(ledger, "UPDATE tideline.batch SET sealed_fence = 2")
    settle = "UPDATE tideline.batch SET written_by = %s"
    assert "no seal has ruled out" in refused(ledger, settle, intended.attempt_id)


def test_an_intent_is_of_the_holder_and_never_changes(ledger, intended):
    assert "is refused" in refused(ledger, "UPDATE tideline.intent SET n_rows = 3")
    assert "is refused" in refused(ledger, "DELETE FROM tideline.intent")
    newer = claim(ledger, intended.batch_id)
    insert = (
        "INSERT INTO tideline.intent (attempt_id, batch_id, output, n_rows, written, redriven_streams, redriven_offsets, facts,"
        " filtered_by_difference) VALUES (%s, %s, 'lake', 1, '[]', '{}', '{}', '{}', false)"
    )
    old = query(ledger, "INSERT INTO tideline.attempt (batch_id, fence, dag_id, run_id, task_id, try_number, host, pid)"
                " VALUES (%s, 9, 'd', 'r', 't', 1, 'h', 1) RETURNING attempt_id", intended.batch_id)[0][0]  # fmt: skip
    assert "only the attempt that holds" in refused(ledger, insert, old, intended.batch_id)
    execute(ledger, insert, newer.attempt_id, intended.batch_id)


@pytest.mark.parametrize("table", ["staged_count", "staged_reject"])
def test_a_task_that_runs_late_changes_nothing_of_an_intent(ledger, stream, table):
    attempt = claim(ledger, planned(ledger, stream))
    stage(ledger, attempt)
    reject(ledger, attempt, stream, 3)
    intents.intend(ledger, attempt, intent_of(attempt, 9))
    stmt = {
        "staged_count": "INSERT INTO tideline.staged_count SELECT attempt_id, stream_id, 50, 51, 1, 0, 0 FROM tideline.staged_count",
        "staged_reject": "INSERT INTO tideline.staged_reject (attempt_id, stream_id, kafka_offset, step, reason)"
        " SELECT attempt_id, stream_id, 4, 'decode', 'late' FROM tideline.staged_reject",
    }[table]
    assert "intends to commit" in refused(ledger, stmt)
    assert "not settled" in refused(ledger, f"DELETE FROM tideline.{table}")
    if table == "staged_count":
        assert "intends to commit" in refused(ledger, "UPDATE tideline.staged_count SET n_read = 3")


def test_a_task_that_stores_while_the_intent_is_stored_is_waited_for(ledger, ledger_url, stream):
    """Its reject is then part of the trial, whose counts no longer add up."""
    attempt = claim(ledger, planned(ledger, stream))
    stage(ledger, attempt)
    with Ledger(ledger_url, actor="late task") as late:
        with late.connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO tideline.staged_reject (attempt_id, stream_id, kafka_offset, step, reason) VALUES (%s, %s, 3, 'd', 'late')",
                (attempt.attempt_id, stream),
            )
        execute(ledger, "SET lock_timeout = '200ms'")
        with pytest.raises(Exception, match="lock timeout"):
            intents.intend(ledger, attempt, intent_of(attempt))
        late.connection.rollback()
    intents.intend(ledger, attempt, intent_of(attempt))


def test_upkeep_spares_what_a_later_attempt_may_settle(ledger, stream, intended):
    execute(ledger, "UPDATE tideline.batch SET state = 'failed'")
    assert cleanup.drop_staging(ledger, PIPELINE) == []
    retry = claim(ledger, intended.batch_id)
    [found] = intents.of_batch(ledger, intended.batch_id)
    assert intents.settle(ledger, retry, found)[0].n_read == 10
    assert query(ledger, "SELECT 1 FROM tideline.staged_count") == []


def test_the_staging_table_of_what_may_be_committed_is_not_dropped(ledger, stream, intended):
    table = staging_name(intended)
    drop = f"SELECT tideline.drop_staging('{table}')"
    execute(ledger, f"CREATE TABLE tideline_staging.{table} ()")
    execute(ledger, "UPDATE tideline.batch SET state = 'failed'")
    assert "is not settled" in refused(ledger, drop, by=["operator", "writer"])
    retry = claim(ledger, intended.batch_id)
    assert "is not settled" in refused(ledger, drop, by=["operator", "writer"])
    [found] = intents.of_batch(ledger, intended.batch_id)
    intents.settle(ledger, retry, found)
    execute(ledger, drop)


def test_rejects_come_with_the_attempt_whose_intent_is_settled_and_with_no_other(ledger, stream, intended):
    retry = claim(ledger, intended.batch_id)
    insert = "INSERT INTO tideline.reject (stream_id, kafka_offset, batch_id, attempt_id, step, reason) VALUES (%s, 3, %s, %s, 'decode', 'x')"
    for attempt in (intended, retry):
        assert "rejects come with" in refused(ledger, insert, stream, intended.batch_id, attempt.attempt_id)


def test_only_one_replay_or_redrive_of_an_offset_is_open(ledger, stream, intended):
    intents.settle(ledger, intended, intent_of(intended))
    replay = planned(ledger, stream, BatchKind.REPLAY)
    with pytest.raises(Exception, match="one_open_replay"):
        planned(ledger, stream, BatchKind.REPLAY, end=5)
    with pytest.raises(Exception, match="one_open_replay"):
        planned(ledger, stream, BatchKind.REDRIVE, end=5)
    assert "is alone, and no other" in refused(ledger, "UPDATE tideline.batch_range SET alone = false WHERE alone")
    execute(ledger, "UPDATE tideline.batch SET state = 'abandoned' WHERE batch_id = %s", replay)
    planned(ledger, stream, BatchKind.REDRIVE, end=5)


@pytest.mark.parametrize("former", [True, False], ids=["outside before", "inside before"])
def test_open_replays_and_redrives_of_an_offset_are_planned_for_one_kind_of_sink(ledger, stream, intended, former):
    """Else one could be published between the commit of the other and its settlement."""
    intents.settle(ledger, intended, intent_of(intended))
    replay = planned(ledger, stream, BatchKind.REPLAY, outside=former)
    for kind in (BatchKind.REPLAY, BatchKind.REDRIVE):
        with pytest.raises(Exception, match="was planned for another kind of sink"):
            planned(ledger, stream, kind, end=5, outside=not former)
    execute(ledger, "UPDATE tideline.batch SET state = 'abandoned' WHERE batch_id = %s", replay)
    planned(ledger, stream, BatchKind.REPLAY, outside=not former)
