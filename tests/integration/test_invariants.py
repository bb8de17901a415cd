"""The queries with which doctor checks a pipeline find rows that were changed in spite of the laws, although they read each row only once."""

import pytest

from given_ledger.ledgers import PIPELINE, RUN, claim, execute, plan, publish, published, query, stage, start_streams
from tideline.domain.states import BatchKind
from tideline.ledger import heads, invariants, queries
from tideline.ledger.reservations import Run

LAWLESS = "SET session_replication_role = replica; ALTER TABLE tideline.coverage DROP CONSTRAINT IF EXISTS one_owner_in_output"


def damage(ledger, statement, *parameters):
    """Change rows in spite of the laws, as a restore or a superuser can."""
    execute(ledger, LAWLESS)
    execute(ledger, statement, *parameters)


@pytest.fixture
def loaded(ledger):
    """Load two streams; the first has two batches over [0, 6) and [6, 12), and offset 2 is a reject."""
    one, two = start_streams(ledger, 2)
    first = plan(ledger, {one: (0, 6), two: (0, 3)}, run=RUN)
    attempt = claim(ledger, first)
    stage(ledger, attempt)
    with ledger.transaction():
        ledger.run(
            "stage_rejects",
            attempt=attempt.attempt,
            stream_ids=[one],
            offsets=[2],
            steps=["decode"],
            reasons=["bad"],
            timestamps_ms=[None],
            keys=[None],
            values=[b"{"],
            headers=[None],
        )
    publish(ledger, attempt, written={one: 5, two: 3})
    second = published(ledger, {one: (6, 12)}, run=Run(dag_id=PIPELINE, run_id="manual__2"))
    heads.advance_published(ledger, PIPELINE)
    return ledger, one, first, second


def broken(ledger):
    """Return the violations: missing offsets, and the batches whose rejects do not add up."""
    with queries.reading(ledger):
        missing = {row["stream_id"]: row["missing"] for row in queries.coverage(ledger, PIPELINE) if row["missing"]}
        miscounted = [row["batch_id"] for row in invariants.reject_miscounts(ledger, PIPELINE)]
        assert [row["batch_id"] for row in invariants.reject_miscounts(ledger, None)] == miscounted
    return missing, miscounted


def test_a_load_with_a_partial_replay_and_a_fill_before_the_start_is_consistent(ledger):
    (stream,) = start_streams(ledger, 1, start=10)
    published(ledger, {stream: (10, 20)})
    heads.advance_published(ledger, PIPELINE)
    published(ledger, {stream: (12, 15)}, kind=BatchKind.REPLAY)
    published(ledger, {stream: (4, 10)}, kind=BatchKind.BACKFILL)
    assert broken(ledger) == ({}, [])
    with queries.reading(ledger):
        [row] = queries.coverage(ledger, PIPELINE)
    assert (row["before_start"], row["n_loaded"]) == ([[4, 10]], 16)


def test_a_gap_is_found_and_named(loaded):
    ledger, one, _, _ = loaded
    assert broken(ledger) == ({}, [])
    damage(ledger, "DELETE FROM tideline.coverage WHERE stream_id = %s AND offsets @> 7::bigint", one)
    assert broken(ledger) == ({one: [[6, 12]]}, [])


def test_a_gap_is_found_where_others_overlap_by_as_much(loaded):
    ledger, one, _, second = loaded
    damage(ledger, "UPDATE tideline.coverage SET offsets = int8range(4, 10) WHERE batch_id = %s", second)
    assert broken(ledger)[0] == {one: [[10, 12]]}


def test_a_reject_that_is_gone_or_too_many_is_found(loaded):
    ledger, _, first, second = loaded
    damage(ledger, "UPDATE tideline.reject SET batch_id = %s, kafka_offset = 8", second)
    assert broken(ledger)[1] == [first, second]
    damage(ledger, "DELETE FROM tideline.reject")
    assert broken(ledger)[1] == [first]


def test_a_reject_in_offsets_that_its_batch_does_not_own_is_found(loaded):
    """The number is right, but a query by its batch's ranges would not find it."""
    ledger, _, first, _ = loaded
    damage(ledger, "UPDATE tideline.reject SET kafka_offset = 8")
    assert broken(ledger)[1] == [first]


def test_a_reject_of_a_batch_that_never_had_its_stream_is_found(loaded):
    ledger, _, first, second = loaded
    damage(ledger, "UPDATE tideline.reject SET batch_id = %s, stream_id = 2", second)
    assert broken(ledger)[1] == [first, second]
    assert query(ledger, "SELECT count(*) FROM tideline.batch_range WHERE batch_id = %s AND stream_id = 2", second) == [
        (0,)
    ]
