"""Both ledgers fold the same batches into the same states, and refuse the same ones."""

from datetime import UTC, datetime

import pytest
from psycopg2.extras import Json

from faults.memory import MemoryLedger
from faults.memory.refusal_cases import refused
from faults.memory.rows import StagedState
from given_ledger.ledgers import PIPELINE, WRITER, claim, plan
from given_ledger.states import COLUMNS, planned, publish
from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind
from tideline.errors import NeedsOperatorError, RetryableError
from tideline.ledger import abandoning, attempts, decisions, folding, folding_turns, reservations, state
from tideline.ledger.attempts import Attempt
from tideline.ledger.database_errors import RefusedStatementError
from tideline.ledger.folding import StagedStates
from tideline.sinks.staging_tables import staging_name

NOON, ONE = datetime(2026, 11, 23, 12, tzinfo=UTC), datetime(2026, 11, 23, 13, tzinfo=UTC)
ANN, BOB = '["ann"]', '["bob"]'


def staged(session: MemoryLedger, attempt: Attempt, *rows: StagedState, resets: bool = False) -> StagedStates:
    """Stage states in both ledgers."""
    table = f"{staging_name(attempt)}_state"
    with session.transaction():
        folding.create_staging(session, table)
        session.copy_states(table, list(rows))
    counts = [sum((row.task, row.phase) == (phase, phase) for row in rows) for phase in (1, 2)]
    return StagedStates(
        table=table, folding={1: counts[0]}, expiring={2: counts[1]}, after=state.newest_fold(session, PIPELINE),
        positions=state.positions(session, attempt.batch_id),
        max_times={piece.stream_id: NOON for piece in attempt.ranges}, processor="v1", columns=COLUMNS, n_expired=counts[1], resets=resets,
    )  # fmt: skip


def fold(session: MemoryLedger, batch_id: int, *rows: StagedState, resets: bool = False) -> None:
    """Claim, stage and publish a stateful batch in both ledgers."""
    attempt = claim(session, batch_id)
    stage_counts(session, attempt)
    publish(session, attempt, staged(session, attempt, *rows, resets=resets))


def stage_counts(session: MemoryLedger, attempt: Attempt) -> None:
    """Stage counts as if every offset had been read."""
    with session.transaction():
        for piece in attempt.ranges:
            whole = {
                "first_read": [piece.offsets.start],
                "last_read": [piece.offsets.end - 1],
                "n_read": [len(piece.offsets)],
            }
            session.run(
                "stage_counts",
                attempt=attempt.attempt,
                stream_ids=[piece.stream_id],
                **whole,
                n_filtered=[0],
                n_bytes=[0],
            )


def skip(session: MemoryLedger, stream_id: int, start: int, end: int) -> None:
    """Leave a hole in both ledgers."""
    with session.transaction():
        stream = next(one for one in reservations.streams(session, PIPELINE) if one.stream_id == stream_id)
        decisions.leave_hole(session, stream, OffsetRange(start, end), "skipped", reason="poison")


def test_both_ledgers_fold_the_same(session, mirrored, stream):
    first = (
        StagedState(1, 1, ANN, stream, {"clicks": 1}, ONE, 3),
        StagedState(1, 1, BOB, stream, {"clicks": 2}, None, 4),
    )
    fold(session, planned(session, {stream: (0, 10)}), *first, StagedState(7, 1, ANN, stream, {"clicks": 9}, None, 9))
    mirrored.check()
    skip(session, stream, 10, 15)
    second = (StagedState(1, 1, ANN, stream, {"clicks": 5}, ONE, 16), StagedState(2, 2, ANN, stream, None, None, 16))
    fold(session, planned(session, {stream: (15, 20)}), *second)
    skip(session, stream, 20, 21)
    fold(session, planned(session, {stream: (21, 30)}), StagedState(1, 1, '["cyd"]', stream, {}, None, 22), resets=True)
    mirrored.check()
    assert [row.key for row in mirrored.states.values()] == ['["cyd"]']


def test_both_ledgers_refuse_what_is_not_in_turn(session, mirrored, stream):
    one, other = (planned(session, {stream: piece}) for piece in ((0, 10), (10, 20)))
    with session.transaction():
        assert folding_turns.in_order(session, [other, one]) == [one, other]
    assert isinstance(attempts.claim(session, other, WRITER, stale_after_seconds=60), folding_turns.Behind)
    mirrored.pass_time(61)
    with pytest.raises(RetryableError, match=f"batch {one} is folded before it"):
        attempts.claim(session, other, WRITER, stale_after_seconds=60)
    with session.transaction():
        early = attempts.take_over(session, session.row("lock_batch", batch_id=other), WRITER)
    stage_counts(session, early)
    with pytest.raises(NeedsOperatorError, match="it is folded up to 0, the range begins at 10"):
        publish(session, early, staged(session, early))
    attempts.fail(session, early, "a problem")
    with session.transaction():
        abandoning.abandon(session, one)
    with pytest.raises(RetryableError, match="no open batch has the offsets in between"):
        attempts.claim(session, other, WRITER, stale_after_seconds=60)
    mirrored.check()


def test_both_ledgers_publish_a_stateful_batch_with_its_state_only(session, mirrored, stream):
    attempt = claim(session, planned(session, {stream: (0, 10)}))
    stage_counts(session, attempt)
    counted = {
        "written": Json([]),
        "facts": Json({str(stream): {"log_start": 0, "end": 10}}),
    }
    with session.transaction():
        session.rows(
            "record_counts",
            batch_id=attempt.batch_id,
            attempt_id=attempt.attempt_id,
            filtered_by_difference=True,
            **counted,
        )
    published = {"batch_id": attempt.batch_id, "attempt": attempt.attempt}
    assert "or not at all" in refused(session, "publish_batch", **published)
    publish(session, attempt, staged(session, attempt))
    assert "folded already" in refused_plan(session, stream, BatchKind.REPLAY)
    assert "folded already" in refused_plan(session, stream, BatchKind.REDRIVE)
    mirrored.check()


def refused_plan(session: MemoryLedger, stream: int, kind: BatchKind) -> str:
    """Return the law that refuses a batch of a kind."""
    with pytest.raises(RefusedStatementError) as caught:
        plan(session, {stream: (0, 10)}, kind=kind)
    return str(caught.value)


def test_both_ledgers_refuse_the_same_folds(session, stream):
    fold_ = {"after": 0, "processor": "v1", "n_keys": 0, "n_expired": 0, "pipeline": PIPELINE}
    of_none = refused(session, "fold_batch", batch_id=plan(session, {stream: (0, 10)}), **fold_)
    assert "only a stateful batch that is being written" in of_none
