"""Both ledgers rewind the same batches to the same states, and refuse the same rewinds."""

from datetime import UTC, datetime

import pytest

from faults.memory.refusal_cases import refused
from faults.memory.rows import StagedState
from faults.memory.test_folding import fold, skip
from given_ledger.ledgers import PIPELINE, start_streams
from given_ledger.states import planned
from tideline.domain.states import BatchKind
from tideline.ledger import folding_turns, heads, rewinds, state
from tideline.ledger.database_errors import RefusedStatementError

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
ANN, BOB, CYD = '["ann"]', '["bob"]', '["cyd"]'


@pytest.fixture
def three(session):
    """Fold three batches of two streams: keys come, change, go, and come again. Return them."""
    one, other = start_streams(session, 2)
    first = planned(session, {one: (0, 10), other: (0, 5)})
    fold(
        session, first, StagedState(1, 1, ANN, one, {"n": 1}, NOON, 3), StagedState(1, 1, BOB, other, {"n": 2}, None, 4)
    )
    second = planned(session, {one: (10, 20)})
    fold(session, second, StagedState(1, 1, ANN, one, {"n": 2}, None, 13), StagedState(2, 2, CYD, one, {}, NOON, 14))
    skip(session, other, 5, 7)
    third = planned(session, {one: (20, 30), other: (7, 9)})
    fold(session, third, StagedState(1, 1, ANN, one, None, None, 23), StagedState(1, 1, BOB, other, {"n": 3}, None, 8))
    heads.advance_published(session, PIPELINE)
    return first, second, third


def rewind(session, to_batch):
    """Rewind in both, without the output and without the plan that follows."""
    with session.transaction():
        undone = [one.batch_id for one in rewinds.after(session, PIPELINE, to_batch)]
        rewinds.undo(session, PIPELINE, undone, to_batch=to_batch, reason="wrong processor")
    return undone


def test_both_ledgers_go_back_to_each_batch_and_fold_again(session, mirrored, three):
    first, second, third = three
    assert rewind(session, second) == [third]
    mirrored.check()
    assert {row.key for row in mirrored.states.values()} == {ANN, BOB, CYD}
    assert rewind(session, None) == [second, first]
    mirrored.check()
    assert not mirrored.states
    assert {position.next_offset for position in mirrored.positions.values()} == {0}
    again = planned(session, {1: (0, 10)}, kind=BatchKind.BACKFILL)
    assert [plan.offsets.end for plan in state.plans(session, again)[1]] == [10, 10]
    fold(session, again, StagedState(1, 1, ANN, 1, {}, None, 4))
    with session.transaction():
        left = folding_turns.rewound(session, PIPELINE)
    assert [(stream_id, piece.start, piece.end) for stream_id, piece in left] == [
        (1, 10, 20),
        (1, 20, 30),
        (2, 0, 5),
        (2, 7, 9),
    ]
    mirrored.check()


def test_both_ledgers_prune_the_undo_of_the_oldest_batches(session, mirrored, three):
    assert rewinds.prune(session, PIPELINE, 1) == [f"{PIPELINE}: undo of 2 batches deleted; the last 1 can be rewound"]
    mirrored.check()
    with session.transaction():
        assert [one.has_undo for one in rewinds.after(session, PIPELINE, None)] == [True, False, False]


def out_of_order(session, verb, **known):
    """Call one verb of a rewind in a transaction that has a rewind."""
    with session.transaction():
        session.rows("begin_rewind", pipeline=PIPELINE, to_batch=None, reason="wrong processor")
        session.run(verb, **known)


def test_both_ledgers_refuse_what_a_rewind_does_out_of_order(session, mirrored, three):
    """The transaction has a rewind, and undoes another batch first, or a batch in part."""
    _, second, third = three
    for verb, known, law in (
        ("undo_states", {"pipeline": PIPELINE, "batch_id": second}, "a rewind goes back from batch to batch"),
        ("undo_positions", {"batch_id": second}, "only a rewind goes back, and from batch to batch"),
        ("apply_undo", {"batch_id": second}, "undo is applied from the newest batch back"),
        ("apply_undo", {"batch_id": third}, "undo is applied to every key and every position of its batch"),
    ):
        with pytest.raises(RefusedStatementError, match=law):
            out_of_order(session, verb, **known)
    mirrored.check()


def test_both_ledgers_refuse_undo_that_is_applied_in_another_way(session, mirrored, three):
    first, second, third = three
    assert refused(session, "apply_undo", batch_id=second) == "undo is applied from the newest batch back"
    assert refused(session, "apply_undo", batch_id=third) == "undo is applied by a rewind"
    assert "a state changes with the batch" in refused(session, "undo_states", pipeline=PIPELINE, batch_id=third)
    assert "only a rewind goes back" in refused(session, "undo_positions", batch_id=third)
    assert "may still be rewound" in refused(session, "delete_undo", batch_ids=[first])
    assert "was not rewound" in refused(session, "supersede_rewound", batch_ids=[third])
    assert "are reserved by a batch" in refused(session, "leave_rewound", batch_ids=[third], reason="why")
    assert "are folded into the state" in refused(session, "uncover_ranges", batch_id=third)
    mirrored.check()
